"""Loops: an agent is run again and again until commands prove that the work is done.

`values`, `verdict`, `events` and `state` are what a loop is; `decisions` says what it does next,
`course` whether it goes nowhere, `iteration` what a run is told. `driver` does it: in an
`environment` (a `workspace` with its `snapshots`, kept with `git`, and the `gates`), with the
lessons of a `learner`, on record in a `stream`.
`lifecycle` is what people do to loops, `report` what they read of them.
"""
