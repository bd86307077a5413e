"""Answers in the making: they belong to their conversation, not to whoever looks at them."""
