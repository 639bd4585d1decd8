"""Server-sent events: a run's records as events, shared by all watchers.

`events` projects records. `channel` is the stream of one run, and `hub` has one for each watched
run. `response` is a watcher's response. `partial_answer` is the text of an arriving reply. `relay`
sends output that is not in the log between processes.
"""
