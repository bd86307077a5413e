"""Imports conversations into the chat from export files of ChatGPT, Open WebUI and this chat."""
