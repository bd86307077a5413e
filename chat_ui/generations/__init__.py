"""Generates the chat's answers in background tasks: an answer goes on whether or not a browser reads it."""
