"""Stored responses: what projects keep of the Responses API, each with its input and output items, until it expires."""
