"""Gateway: serves the OpenAI API over HTTP, by publishing jobs to the broker's queues and relaying the replies."""
