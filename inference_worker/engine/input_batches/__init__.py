"""Engines that compute the inputs of requests in batches of similar lengths: embeddings and scores."""
