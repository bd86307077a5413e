"""Parsing of files: one module for each format, run in sandboxed processes by `parser.DocumentParser`."""
