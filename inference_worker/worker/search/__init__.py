"""Runs searches: engine requests for the continuations of paths, child jobs for their scores, steps for the gateway."""
