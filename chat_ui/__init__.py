"""The web chat: front-end source in `web/`, and the app that serves it."""
