"""The core of taofold: values, effects, events, the fold of events to state, the rules of a turn.

Nothing in this package performs I/O, reads a clock or draws a random number.
"""
