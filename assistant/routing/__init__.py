"""Routing: rewriting follow-up questions to stand alone, and choosing the tool that a question needs."""
