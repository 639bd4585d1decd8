"""The default log: one SQLite file, many runs, several processes, and the journal beside them.

`log` and `journal` are what the rest of the house sees. `open` finds the file, `origin` knows
whether it is ours, `file` makes transactions on it, `statements` are its tables and SQL.
"""
