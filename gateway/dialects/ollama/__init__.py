"""Ollama's API: its requests as chat completions, completions and embeddings, and generations as its lines of JSON."""
