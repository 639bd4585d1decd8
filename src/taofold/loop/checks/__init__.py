"""Reads what test runners, linters and compilers report. Pure.

`plan` recognises the tool of a command and asks it for a machine-readable report, `report` reads
the lines of our own reporters, `tools` what cargo, go, ruff, mypy and tsc print.
"""
