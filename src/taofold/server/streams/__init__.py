"""Server-sent events: a run's records as events, shared by all who watch, and the response."""
