"""Launchers: start and supervise the processes of a platform on one machine, or run all in one process."""
