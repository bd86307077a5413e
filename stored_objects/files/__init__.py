"""Files of projects (OpenAI's Files API) and uploads of large files in parts (Uploads API)."""
