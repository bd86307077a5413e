"""Fixtures of all tests."""

pytest_plugins = ["tests.model_fixtures", "tests.rabbitmq_fixtures", "tests.store_fixtures"]
