"""The engine of vision-language models: models of the `transformers` library that read images and write text."""
