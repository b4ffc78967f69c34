"""Requests made up from /openapi.json: none may end in a 500, and a 503 says when to come back."""
