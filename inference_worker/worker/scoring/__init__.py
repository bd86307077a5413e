"""Handles score jobs in the worker process: tokenises candidates with their contexts, and publishes scores."""
