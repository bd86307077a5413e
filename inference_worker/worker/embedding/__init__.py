"""Handles embedding jobs in the worker process: tokenises their inputs and publishes the engine's vectors."""
