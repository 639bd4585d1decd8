"""Server-sent events: a run's records as events, shared by all who watch.

`events` projects records, `channel` is one run's stream, `hub` has one for each run that is
watched and answers who watches, `relay` carries between processes what no log holds.
"""
