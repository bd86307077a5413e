"""Locates models and reads the metadata of their files. Must not import torch."""
