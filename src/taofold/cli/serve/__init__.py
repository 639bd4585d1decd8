"""Commands `taofold serve` and `taofold work`: agents over HTTP or MCP, tokens, workers.

`commands` has the commands. `http` and `mcp` open the port and are imported on demand.
"""
