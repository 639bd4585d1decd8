"""Flows: agents whose strategy is a graph of nodes. Independent of the actions.

`file` reads and builds a flow file, whose keys are in `flow`. `compiler` checks and compiles its
nodes. `interpreter` is the strategy that runs the result.
"""
