"""What runs beside the tests: scripts and reporters copied out of the work root for a gate.

They are executed by the project's own interpreter, so they import nothing of taofold.
"""
