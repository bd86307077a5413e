"""Engine of vision-language models: models of the `transformers` library that read images and generate text."""
