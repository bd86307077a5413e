"""Infrastructure of all processes: logging, metrics, retries, start and stop, strict JSON, sandbox, expressions.

Must not import other packages of Headrace.
"""
