"""What every process has: logging, metrics, tracing, start and stop. Imports nothing of Headrace's."""
