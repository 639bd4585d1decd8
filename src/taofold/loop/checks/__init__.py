"""Reads what test runners, linters and compilers report, one module per tool. Pure."""
