"""Stored conversations: records, size limits, search terms, and the ports of their stores."""
