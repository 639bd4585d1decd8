"""`taofold serve` and `taofold work`: agents over HTTP or MCP, tokens, workers."""
