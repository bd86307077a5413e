"""Stored conversations of the chat: records, size limits, search terms, and the interfaces of their stores."""
