"""Writes responses of the Responses API: their output items, events and response objects, from a job's replies."""
