"""Vector stores in a gateway: imports files in the background, embeds passages and queries, and searches."""
