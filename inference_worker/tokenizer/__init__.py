"""Tokenizers, built from the files of a model; used by the worker and by the engine."""
