"""Serves the gateway's API and the web chat on one port: application, chat services, and their use of the gateway."""
