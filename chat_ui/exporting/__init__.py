"""Conversations as files: tables for spreadsheets, JSON, Markdown. Each is whole on the disk before it is sent."""
