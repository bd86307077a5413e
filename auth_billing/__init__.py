"""Identity, rate limits and billing. Facades: `service.AuthBilling` and `idempotency.IdempotencyKeys`."""
