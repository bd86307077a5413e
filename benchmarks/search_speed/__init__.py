"""Time of a verifier-guided search: one request to Headrace, beside a client's loop of requests to servers."""
