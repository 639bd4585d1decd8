"""The gates of a loop: how a verdict is reached where an agent cannot reach it.

`scope` says which changes are part of the work, `baseline` keeps the tree of the start,
`tree` lays a fresh one from both, `bench` runs a command there, `expect` compares with the
start, `judge` puts it together. `edits` is a person's word about files that decide.
"""
