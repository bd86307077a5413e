"""Proxy: answers jobs by calling OpenAI-compatible upstreams, as a further consumer of the job queues.

`catalogue` lists models and upstreams, `request` converts a job to an upstream request, `upstream` sends it, `stream`
and `embeddings` parse the answer, `forwarder` publishes the replies. Answers are not trusted: only known fields are
read, and replies are built from scratch.
"""
