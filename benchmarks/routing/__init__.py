"""Benchmark of the assistant's routing: accuracy and added time of each way of choosing tools, and of rewriting."""
