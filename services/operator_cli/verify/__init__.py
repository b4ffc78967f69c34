"""`sluice verify`: an oracle that reads the whole log and the whole store, and compares them.

It shares ids, contracts, ports and the chunker's function with the workers, and nothing of how they decide, count and
write: what a point, a head and a ledger entry must be is said here a second time, from the log alone.
"""
