"""Benchmarks of Headrace: seeded workloads, one definition per measure, and result files with their commands."""
