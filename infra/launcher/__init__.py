"""Starts and watches the processes of a platform on one machine."""
