"""Loads a model onto a device: number format, weights, compilation."""
