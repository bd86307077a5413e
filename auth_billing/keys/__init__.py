"""API keys: their format, scopes, management, and the invalidation of cached keys."""
