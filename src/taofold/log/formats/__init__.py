"""The text forms of a run: NDJSON (lossless), TAO YAML and ReAct JSON, written and read."""
