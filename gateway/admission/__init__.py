"""Admission control: decides whether a request may be queued, and when its jobs are published."""
