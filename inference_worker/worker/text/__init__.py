"""Text in and out: templates, tokenising, detokenising, stop strings. Never imports torch."""
