"""Quantises the weights of a model folder as a compressed-tensors checkpoint, and measures what it costs."""
