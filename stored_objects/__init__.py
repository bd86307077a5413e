"""Stored objects: stores users' images and files as blobs (a folder or S3), with owner, quota and expiry in MongoDB."""
