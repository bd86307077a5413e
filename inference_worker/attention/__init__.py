"""Paged attention: one port (`backend`), a plain reference, and faster backends."""
