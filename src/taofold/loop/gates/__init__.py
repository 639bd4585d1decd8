"""The gates of a loop: how a verdict is reached where an agent cannot reach it.

`criteria` reads the commands that prove completion, `commands` how each is run. `scope` says which
changes are part of the work, `delivery` finds those that were made. `baseline` keeps the tree of
the start (`capture` takes it) and lays fresh ones, `bench` runs a command there, `reports` reads
what it printed, `expectations` compares with the start, and `judge` puts it together.
"""
