"""`python -m tests.environments [NAME…]` makes the named environments, or all."""

import subprocess
import sys

from tests import environments


def main(wanted: list[str]) -> int:
    known = environments.names()
    if unknown := [name for name in wanted if name not in known]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = False
    for name in wanted or known:
        try:
            print(f"{name}: {environments.make(name).folder}", flush=True)
        except subprocess.CalledProcessError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
