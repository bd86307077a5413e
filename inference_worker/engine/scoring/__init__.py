"""Engine of cross-encoders and reward models: scores of pairs of texts, of answers and of their steps."""
