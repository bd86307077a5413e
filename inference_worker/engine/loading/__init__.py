"""Loads models into the engine: selects number formats, reads weights, and converts models to the compiled kernels."""
