"""Stores of conversations, messages, presets, shares and imports in MongoDB."""
