"""The web chat: the browser page (`web/`), the server that delivers it, and its JSON API."""
