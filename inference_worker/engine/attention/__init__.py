"""Paged attention: a reference implementation and faster backends of the interface `attention_backend`."""
