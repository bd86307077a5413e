"""Routing: accuracy and added time of the ways of choosing a tool, and of rewriting follow-up questions."""
