"""The default log: one SQLite file, many runs, several processes, and the journal beside them."""
