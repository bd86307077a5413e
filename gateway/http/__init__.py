"""HTTP side of the gateway: server, request checks, authentication, routes and event streams."""
