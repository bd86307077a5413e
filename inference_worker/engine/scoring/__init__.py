"""Engines of cross-encoders and reward models: compute scores of pairs of texts, of answers and of answers' steps."""
