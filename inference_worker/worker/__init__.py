"""The worker process: jobs in, text, the engine process, replies out."""
