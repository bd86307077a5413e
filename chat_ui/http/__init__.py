"""The HTTP API of the web chat: app, guards, bodies, routes and shapes."""
