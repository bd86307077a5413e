"""Paged attention: a reference implementation and faster backends (`engine/attention_backend.py` has the interface)."""
