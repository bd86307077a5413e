"""Formats the replies to a request's jobs as answers in OpenAI's shapes, and shares answers between requests."""
