"""`python -m taofold`: the program `taofold`."""

from taofold.cli import main

if __name__ == "__main__":
    main()
