"""The core of taofold: values, effects, events, the fold of events to state, and the rules of a
turn.

This package performs no I/O, reads no clock and draws no random numbers.
"""
