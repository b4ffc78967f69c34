"""`sluice verify`: reads the whole log and the whole store, and compares them.

What was submitted, published and failed comes from the one fold of the log (`ingest_worker.history`). Otherwise
it shares ids, contracts, ports and the chunker's function with the workers, but no code that decides, counts or writes:
what points and heads must be is defined here a second time.
"""
