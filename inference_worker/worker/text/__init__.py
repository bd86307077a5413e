"""Text processing of a worker: chat templates, tokenising, detokenising, stop strings. Must not import torch."""
