"""Samples the engine's next tokens: turns a model's logits into token ids and log probabilities."""
