"""The engine of image models: pipelines of the diffusers library."""
