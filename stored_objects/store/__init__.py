"""MongoDB stores of stored objects: documents and counts of bytes."""
