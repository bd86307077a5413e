"""Text processing of the worker: chat templates, tokenising, detokenising, stop strings. Must not import torch."""
