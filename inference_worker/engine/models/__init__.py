"""Model architectures of the engine: families on our own decoder, and all other ones through `transformers`' code."""
