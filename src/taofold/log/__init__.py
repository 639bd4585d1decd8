"""Logs: the storage of runs, its guarantees, and the export formats of a run.

`log.py` is the interface, `memory.py` its simplest implementation, `sqlite/` and `postgres/` the
durable ones. `run_store.py` holds one run's state with its listeners. `journal.py` keeps streams of
facts that are no runs (loops, lessons); `patterns/` keeps their registry. `transfer.py` moves a
whole log. `uncertain_writes.py` determines whether a write happened whose answer was lost.
Importing `taofold` loads neither `sqlite3` nor a driver: `open.py` finds an implementation by name
on demand.
"""
