"""Structured output of a worker: compiles grammars, and masks the tokens that a grammar does not allow next.

Built on llguidance (ADR 0012).
"""
