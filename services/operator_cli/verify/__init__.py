"""`sluice verify`: reads the whole log and the whole store, and compares them.

What was submitted, published and failed comes from the one fold of the log (`ingest_worker.history`). What a
version's chunks, points and head must be comes from the functions that the workers make them with; tests define that a
second time. No code that decides, counts or writes is shared.
"""
