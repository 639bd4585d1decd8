"""The default log: one SQLite file, many runs, several processes, and the journal beside them.

`log` and `journal` are the public modules. `open` finds the file, `origin` verifies that it is
ours, `file` makes transactions on it, `statements` has its tables and SQL.
"""
