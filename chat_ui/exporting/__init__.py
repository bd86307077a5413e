"""Exports conversations as CSV, XLSX, JSON or Markdown files; a file is complete on disk before it is sent."""
