"""Embedding jobs in the worker process."""
