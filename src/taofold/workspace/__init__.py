"""The files of a run or a loop: their states, stored by content outside of the working tree.

`git` runs git so that it obeys nothing that an agent could have written. `snapshots` takes,
compares and restores the states of one tree. `run_files` ties them to the steps of runs, bounds
them and removes those of deleted runs. Knows nothing about loops and agents.
"""
