"""Other programs' protocols over the same answers and searches: OpenAI, Ollama, MCP, Dify, Open WebUI.

Each module translates one protocol and decides nothing: `asking` answers, `models` names what can be asked for, `links`
says where a source can be read.
"""
