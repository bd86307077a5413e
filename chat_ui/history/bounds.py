"""Size limits of conversations, messages and searches: far above normal use, low enough to protect other users."""

from __future__ import annotations

LONGEST_TITLE = 200
"""In characters, as all lengths in this module unless stated otherwise."""
LONGEST_SYSTEM = 32_768
LONGEST_QUESTION = 262_144
MOST_ATTACHMENTS = 10
LARGEST_ATTACHMENTS = 1_048_576
"""Bytes of UTF-8 of all files of a question together."""
LONGEST_ANSWER = 1_048_576
MOST_TOKENS = 1_000_000
"""Tokens of an answer; the model's context length is usually the smaller limit."""
MOST_MESSAGES = 2_000
"""Messages of a conversation, in all branches."""
LARGEST_CONVERSATION = 8 * 1_048_576
"""Bytes of all messages and attachments of a conversation together."""
MOST_CONVERSATIONS = 100_000
"""Conversations of a person."""
MOST_PRESETS = 100
MOST_TERMS = 2_000
"""Distinct words of a conversation that search can find; later ones are not indexed."""
LONGEST_TERM = 40
MOST_WORDS = 10
"""Words of a search query."""
LARGEST_PAGE = 100
MOST_FOUND = 1_000
"""Largest number of results that a search counts."""
