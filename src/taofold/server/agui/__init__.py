"""AG-UI 1.0: runs as conversations of a client that speaks that protocol."""
