"""Attention backends of the engine: each computes causal attention over the paged KV cache, for a kind of device."""
