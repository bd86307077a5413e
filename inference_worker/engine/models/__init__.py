"""Model families: `families.py` has our own; all others use `transformers_backend`."""
