"""Scripts and reporters that run beside the tests, copied out of the work root for a gate.

The project's own interpreter executes them, so they import nothing of taofold.
"""
