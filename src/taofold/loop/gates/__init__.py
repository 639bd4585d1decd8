"""The gates of a loop: how a verdict is reached where an agent cannot reach it.

`criteria` reads the commands that prove completion. `scope` says which changes are part of the
work, `baseline` keeps the tree of the start (`capture` takes it), `tree` lays a fresh one from
both, `bench` runs a command there, `expect` compares with the start, `results` says what a run
proves, `judge` puts it together. `work` is the difference to the start, `insource` finds tests
inside source files, `programs` finds what a command starts.
"""
