"""The HTTP API of the web chat: FastAPI application, guards of routes, request bodies, routes and response models."""
