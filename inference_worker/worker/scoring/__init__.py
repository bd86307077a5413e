"""Handles score jobs of a cross-encoder or reward model in the worker: tokenises candidates, publishes scores."""
