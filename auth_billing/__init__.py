"""Identity, rate limits and billing. Facades: `authenticator.Authenticator` and `idempotency.IdempotencyKeys`."""
