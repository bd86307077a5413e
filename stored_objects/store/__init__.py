"""MongoDB implementations of the stores of stored objects: their documents, and the byte counts of quotas."""
