"""Billing: holds credit before a job runs, settles its cost afterwards; keeps ledger, budgets, reports and alerts."""
