"""Runs searches for an answer in a worker: continuations in its engine, scores by the verifier's workers."""
