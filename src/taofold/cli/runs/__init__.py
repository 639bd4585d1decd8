"""`taofold run` and `taofold runs …`.

Verbs: `start`, `read` (what only looks), `change`, `exchange` (export, import). `find` is the run
that a person means, `status` whether anybody drives it, and how
one that nobody drives is ended, `drive` and `show` put it before
a person.
"""
