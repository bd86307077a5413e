"""Embedding jobs in the worker process: tokenising inputs and publishing vectors."""
