"""Answers jobs by calling outside: OpenAI-compatible upstreams, one more consumer on the same queues.

`catalogue` says which models, `request` turns a job into what an upstream is asked, `upstream` talks to it, `stream`
and `embeddings` read what it says, `forwarder` makes replies of it. What an upstream says is not trusted: only fields
that are known here are read, and they are written anew. Nothing here knows a gateway, an engine or money.
"""
