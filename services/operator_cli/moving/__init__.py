"""Moving and keeping what Sluice has: backups, and copies from one log or store to another."""
