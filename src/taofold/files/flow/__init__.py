"""Flows: agents whose strategy is a graph of nodes. Knows nothing about what actions do.

`file` reads and builds a flow file, whose keys are in `flow` and whose nodes `compiler` checks and
compiles; `interpreter` is the strategy that runs what was compiled.
"""
