"""Backups, and moving the index from one store to another."""
