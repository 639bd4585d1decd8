"""Runs the program of `app` with `python -m taofold.cli`."""

from taofold.cli import main

main()
