"""Translates other vendors' APIs to OpenAI's requests, and generations to their answers; jobs are the same."""
