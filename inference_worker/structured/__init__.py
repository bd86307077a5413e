"""Structured output: a grammar says which tokens may come next, and the others are masked when sampling.

Built on llguidance (ADR 0012). Knows token ids and bytes; not requests, queues or models.
"""
