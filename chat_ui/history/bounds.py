"""How large things may be. Each is far above what people write, and low enough that nobody's history harms others'."""

from __future__ import annotations

LONGEST_TITLE = 200
"""Characters, as all lengths here unless said otherwise."""
LONGEST_SYSTEM = 32_768
LONGEST_QUESTION = 262_144
MOST_ATTACHMENTS = 10
LARGEST_ATTACHMENTS = 1_048_576
"""Bytes of UTF-8, of all files of a question together."""
LONGEST_ANSWER = 1_048_576
MOST_TOKENS = 1_000_000
"""Of an answer; the model's own context is what really bounds it."""
MOST_MESSAGES = 2_000
"""Of a conversation, in all branches."""
LARGEST_CONVERSATION = 8 * 1_048_576
"""Of all messages and attachments together."""
MOST_CONVERSATIONS = 100_000
"""Of a person."""
MOST_PRESETS = 100
MOST_TERMS = 2_000
"""Different words of a conversation that it can be found by; the first ones count."""
LONGEST_TERM = 40
MOST_WORDS = 10
"""Of a search."""
LARGEST_PAGE = 100
MOST_FOUND = 1_000
"""Conversations that a search counts."""
