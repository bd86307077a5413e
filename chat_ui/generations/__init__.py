"""Generates answers in the background: an answer goes on whether or not a browser reads it."""
