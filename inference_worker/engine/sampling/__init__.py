"""Sampling: turns logits into token ids and log probabilities."""
