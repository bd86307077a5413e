"""The life of a job in the gateway: built, held, published, recovered, settled."""
