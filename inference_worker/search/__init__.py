"""Searches for one answer by several paths (test-time compute), as a state machine without I/O that a worker drives."""
