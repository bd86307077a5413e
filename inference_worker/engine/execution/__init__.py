"""Execution of planned batches: input tensors, model runners, the KV cache and model loading."""
