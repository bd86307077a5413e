"""Billing: holds before a job runs, settlement after it, the ledger, credit, budgets, usage reports and alerts."""
