"""Handles image jobs in the worker process: checks image sizes, and publishes the images that the engine draws."""
