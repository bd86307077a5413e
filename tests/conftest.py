"""Fixtures of all tests. Triton's kernels run in its interpreter, on the CPU."""

import os

# Read when the kernels are defined, so before any test module is imported. On a GPU: tests/gpu.
os.environ.setdefault("TRITON_INTERPRET", "1")

pytest_plugins = ["tests.model_fixtures", "tests.rabbitmq_fixtures", "tests.store_fixtures"]
