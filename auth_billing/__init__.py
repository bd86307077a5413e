"""Who you are, what you may do, what you owe. Others call `service.AuthBilling` and `idempotency.IdempotencyKeys`."""
