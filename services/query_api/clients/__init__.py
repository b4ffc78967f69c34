"""Serves the protocols of other programs: OpenAI, Ollama, MCP, Dify, Open WebUI.

Each module translates one protocol and decides nothing. `asking` asks the answering service, `models` lists the model
names, and `links` makes the URLs of sources.
"""
