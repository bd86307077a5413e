"""Benchmarks: seeded workloads, one definition per measure, and result files with the command that made them."""
