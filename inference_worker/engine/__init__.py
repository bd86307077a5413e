"""Engine process of a worker: runs one model on token ids, with continuous batching over a paged KV cache."""
