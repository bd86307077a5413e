"""Constants that limit sizes and numbers of conversations, messages, presets and searches, far above normal use."""

from __future__ import annotations

MAX_TITLE_CHARS = 200
"""In characters, as all lengths in this module unless stated otherwise."""
MAX_SYSTEM_CHARS = 32_768
MAX_QUESTION_CHARS = 262_144
MAX_ATTACHMENTS = 10
MAX_ATTACHMENT_BYTES = 1_048_576
"""Bytes of UTF-8 of all files of a question together."""
MAX_ANSWER_CHARS = 1_048_576
MAX_TOKENS = 1_000_000
"""Tokens of an answer; the model's context length is usually the smaller limit."""
MAX_TOOLS_OFF = 64
"""Tools that a conversation switches off."""
MAX_VECTOR_STORES = 8
"""Vector stores from which the questions of a conversation are answered."""
MAX_MESSAGES = 2_000
"""Messages of a conversation, in all branches."""
MAX_CONVERSATION_BYTES = 8 * 1_048_576
"""Bytes of all messages and attachments of a conversation together."""
MAX_CONVERSATIONS = 100_000
"""Conversations of a person."""
MAX_PRESETS = 100
MAX_TERMS = 2_000
"""Distinct words of a conversation that search can find; later ones are not indexed."""
MAX_TERM_CHARS = 40
MAX_QUERY_WORDS = 10
"""Words of a search query."""
MAX_PAGE_SIZE = 100
MAX_RESULTS = 1_000
"""Largest number of results that a search counts."""
