"""Conversations of the Responses API: what projects keep as a context of responses, item by item."""
