"""Accuracy of searches for answers (test-time compute): tasks with exact checks, a trained verifier, measurements."""
