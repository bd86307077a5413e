"""MongoDB stores of accounts, people, API keys and billing. Only `store/` packages may import motor."""
