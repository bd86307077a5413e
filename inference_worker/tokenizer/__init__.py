"""A model's tokenizer, read from its files."""
