"""Worker's side of vision-language models: reads the images of prompts in a confined process, and prepares prompts."""
