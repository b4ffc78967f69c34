"""The console: the pages a person uses, at `/`. They talk to the same API as every other client."""
