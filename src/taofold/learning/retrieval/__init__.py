"""Which patterns answer the errors that are there, and how they are shown."""
