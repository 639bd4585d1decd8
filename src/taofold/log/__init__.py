"""Logs: where runs are kept, what a log promises, and the forms in which a run leaves it.

`log.py` is the interface, `memory.py` its plainest implementation, `sqlite/` and `postgres/` those
that last. `run_store.py` is one run's state with its listeners; `journal.py` keeps streams of facts
that are no runs (loops, what was learnt); `patterns/` their registry. `transfer.py` moves a whole
log, `uncertain_writes.py` finds out whether a write happened whose answer was lost. Importing
`taofold` loads neither `sqlite3` nor a driver: `open.py` finds an implementation by name when it is
asked for.
"""
