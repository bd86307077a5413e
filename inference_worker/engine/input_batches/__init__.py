"""Engines that compute the inputs of requests in padded batches of similar lengths: embeddings and scores of pairs."""
