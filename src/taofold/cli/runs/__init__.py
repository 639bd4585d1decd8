"""`taofold run` and `taofold runs …`.

Verbs: `drive` (`run`, and how any run is driven before a person), `read` (what only looks),
`change`, `exchange` (export, import). `find` is the run that a person means, `status` whether
anybody drives it and how one that nobody drives is ended, `show` how a run is rendered.
"""
