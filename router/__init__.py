"""Messaging layer of all processes: message types, broker topology, transports, bus, job publishers and consumers.

Gateway, worker, proxy, chat and billing import this package and never one another.
"""
