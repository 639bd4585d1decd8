"""`python -m taofold.cli`: the program of `app`."""

from taofold.cli import main

main()
