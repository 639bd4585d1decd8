"""`taofold run` and `taofold runs …`.

Verbs: `drive` (`run`, and how any run is driven before a person), `read` (what only looks),
`change`, `exchange` (export, import, migrate). `find` is the run that a person means; how runs
are shown is in `render`.
"""
