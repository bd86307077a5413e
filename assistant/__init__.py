"""Assistant: a job consumer that answers a chat by steps (rewriting, routing, a tool) and by child jobs at models."""
