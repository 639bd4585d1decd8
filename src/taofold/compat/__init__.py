"""The names of other frameworks for what is ours: thin layers, one module for each framework.

Nothing else in taofold imports from here. `taofold.compat.tagent` is TAgent's.
"""
