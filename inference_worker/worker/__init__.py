"""The worker process: consumes jobs, tokenises prompts, supervises the engine process, and publishes replies."""
