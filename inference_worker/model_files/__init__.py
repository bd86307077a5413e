"""Locates a worker's model and reads the metadata of the model's files. Must not import torch."""
