"""Imports conversations from export files of ChatGPT, Open WebUI and this chat."""
