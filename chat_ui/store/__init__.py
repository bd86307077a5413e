"""MongoDB stores of the chat: conversations, messages, presets, shares, imports and counts of stored bytes."""
