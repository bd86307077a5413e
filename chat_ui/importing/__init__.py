"""Conversations of other programs: what their files say, and how it becomes ours."""
