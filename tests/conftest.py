"""Fixtures of all tests."""

pytest_plugins = ["tests.rabbitmq_fixtures", "tests.store_fixtures"]
