"""Runs searches for answers in the worker: engine requests extend paths, child jobs score them, gateways get steps."""
