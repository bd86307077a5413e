"""Tokenizers of models, built from the model's files: text to token ids and back, for the worker and the engine."""
