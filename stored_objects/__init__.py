"""Stored objects: images and other files, as blobs in a folder or S3, with owned documents in the store."""
