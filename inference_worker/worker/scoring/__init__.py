"""Score jobs in the worker process: tokenising candidates with their contexts and publishing scores."""
