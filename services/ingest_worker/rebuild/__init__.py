"""Rebuilds a lost index from the log: first the ledger, then the points. See ADR 0011."""
