"""Benchmark of a verifier-guided search: its time as one request to Headrace, beside a client's loop of requests."""
