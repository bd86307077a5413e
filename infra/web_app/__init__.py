"""API and web chat on one port."""
