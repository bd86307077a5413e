"""The assistant: a job consumer that answers by steps (rewrite, route, tool) and by child jobs at other models."""
