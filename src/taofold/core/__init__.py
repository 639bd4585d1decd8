"""The nouns and verbs of taofold: values, effects, events, the fold, the rules of the loop.

Nothing in this package performs I/O, reads a clock or draws a random number.
"""
