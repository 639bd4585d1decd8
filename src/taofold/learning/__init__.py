"""What loops learn: patterns, how they are judged, chosen and shown.

Pure: no clock, no disk, no randomness. What is kept lies in `taofold.log.registry.registry`; what
finds patterns in a finished loop lies beside this, and what is done with them above.
"""
