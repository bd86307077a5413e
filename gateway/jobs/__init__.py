"""Life of a job in the gateway: building, credit hold, publishing, reading the answer, and settlement."""
