"""Identity, rate limits and billing: authenticates callers, limits their requests, charges organisations for jobs."""
