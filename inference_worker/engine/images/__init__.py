"""Engine of image models: draws images from text prompts with pipelines of the diffusers library."""
