"""Paged attention: the backend interface (`backend`), a plain reference implementation, and faster backends."""
