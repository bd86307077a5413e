"""Structured output: compiles grammars and masks the tokens that they do not allow next.

Built on llguidance (ADR 0012).
"""
