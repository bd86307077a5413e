"""Accounts in MongoDB. The only place that imports motor."""
