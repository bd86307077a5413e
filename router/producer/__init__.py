"""Publisher of jobs, shared by gateways and assistants: follows the replies to published jobs and recovers lost ones.

`recovery` decides which attempt at a job counts; `reply_inbox` reads the replies; `recovery_driver` does all I/O.
"""
