"""Tests of searches in a worker."""
