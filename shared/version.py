"""The product's version; pyproject.toml has the same, a test says so."""

VERSION = "0.1.0"
