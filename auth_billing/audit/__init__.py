"""Proof that the books are right: what must always hold, looked up in the live store."""
