"""Messaging layer: message types, broker topology, transports, the typed bus, and what all consumers of jobs share.

Gateway, worker, proxy, chat and billing import this package and never one another.
"""
