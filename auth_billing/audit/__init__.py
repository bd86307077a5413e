"""Audit of the books: checks the invariants of accounts, jobs and ledger in the live store, and corrects nothing."""
