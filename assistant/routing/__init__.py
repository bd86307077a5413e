"""Routing of the assistant: rewrites follow-up questions to stand alone, and chooses the tool that a question needs."""
