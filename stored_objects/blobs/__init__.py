"""Blobs: the immutable bytes of stored objects in a folder or S3, their writers, and their signed addresses."""
