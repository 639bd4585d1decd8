"""The runtime: drives strategies, performs effects, appends events."""
