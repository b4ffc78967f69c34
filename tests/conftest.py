"""Servers that tests of any folder may ask for."""

pytest_plugins = ("tests.servers.kafka", "tests.servers.ollama")
