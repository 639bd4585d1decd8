"""`python -m taofold.cli`."""

from taofold.cli import main

main()
