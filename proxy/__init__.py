"""Proxy process: a job consumer beside the workers that answers jobs by calling external OpenAI-compatible providers.

`catalogue` lists models and upstreams, `request` converts a job to an upstream request, `upstream` sends it, `stream`
and `embeddings` parse the answer, `forwarder` publishes the replies. Answers are not trusted: only known fields are
read, and replies are built from scratch.
"""
