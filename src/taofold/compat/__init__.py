"""Other frameworks' names for taofold's features: thin layers, one module for each framework.

Nothing else in taofold imports this package. `taofold.compat.tagent` has TAgent's names.
"""
