"""The console: web pages for people, at `/`. They use the same API as every other client."""
