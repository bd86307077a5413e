"""Infrastructure of all processes: logging, metrics, retries, start and stop.

Must not import other packages of Headrace.
"""
