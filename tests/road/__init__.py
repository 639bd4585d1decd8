"""The road matrix: output type × protocol × strategy × entry point × provider.

Each row is one run by one way that a user can take, against a provider behind HTTP on this machine.
"""
