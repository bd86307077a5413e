"""The wire: messages, topology, transports, and the typed bus that every process stands on.

Gateway, worker, proxy, chat and billing import this package and never one another.
"""
