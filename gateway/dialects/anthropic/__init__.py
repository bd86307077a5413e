"""Anthropic's Messages API: its requests as chat completions, and generations as its messages and events."""
