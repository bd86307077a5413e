"""Images: size and format from the beginning of a file, limits for prompts, signed addresses in tools' results."""
