"""`taofold serve` and `taofold work`: agents over HTTP or MCP, tokens, workers.

`commands` are the verbs; `http` and `mcp` open the port, and are imported only then.
"""
