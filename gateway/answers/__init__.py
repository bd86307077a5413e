"""Answers in OpenAI's shapes, made of the replies to a request's jobs."""
