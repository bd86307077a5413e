"""Publishes jobs for gateways, assistants and searching workers: reads the replies, and recovers jobs of lost workers.

`recovery` decides which attempt at a job counts; `reply_inbox` reads the replies; `recovery_driver` does all I/O.
"""
