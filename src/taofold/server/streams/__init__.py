"""Server-sent events: a run's records as events, shared by all who watch.

`events` projects records, `channel` is one run's stream, `hub` has one for each run that is
watched, and `response` is what each watcher gets. `partial_answer` is a reply that still arrives,
`relay` carries between processes what no log holds.
"""
