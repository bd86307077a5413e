"""HTTP in, SSE out: the OpenAI API over the queue."""
