"""The web chat: the browser page (`web/`), the server that delivers it, its JSON API, conversations and answers."""
