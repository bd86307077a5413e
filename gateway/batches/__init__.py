"""Batches: files of requests that are answered in the background, by the gateway that holds the lease of a batch."""
