"""MongoDB stores of accounts, people, keys and billing. Only `store/` packages may import motor."""
