"""Exports conversations as CSV, XLSX, JSON or Markdown files. A file is complete on disk before it is sent."""
