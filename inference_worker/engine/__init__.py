"""The engine process: continuous batching over a paged KV cache."""
