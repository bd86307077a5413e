"""Objects: an image's or file's document with owner, size and expiry; storage quotas; the sweeper."""
