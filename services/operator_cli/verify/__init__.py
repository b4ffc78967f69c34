"""`sluice verify`: an oracle that reads the whole log and the whole store, and compares them.

It shares ids, contracts, ports and the chunker's function with the workers, but no code that decides, counts or writes:
what points, heads and ledger entries must be is defined here a second time, from the log alone.
"""
