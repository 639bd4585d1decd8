"""The store: the log protocol, dispatch, fold and travel."""
