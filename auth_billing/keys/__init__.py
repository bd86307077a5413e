"""API keys: generates, stores, lists, rotates and revokes keys, caches valid ones, and invalidates changed ones."""
