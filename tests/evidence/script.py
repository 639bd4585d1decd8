"""Runs the verifier in JavaScript."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from taofold.evidence.verifier import BROKEN, NO_KEY, OK, UNSIGNED
from tests.evidence.keys import signer

SCRIPT = Path(__file__).parents[2] / "conformance" / "verify.mjs"
CODES = {"verified": OK, "unsigned": UNSIGNED, "no key": NO_KEY, "broken": BROKEN}


def place_of(text: str) -> str:
    """Returns the record or line that the text of a broken export names; "" if none."""
    found = re.match(r"(?:broken: )?((?:record|line) \d+):", text)
    return found[1] if found else ""


def verdicts(folder: Path, exports: Sequence[bytes], *keys: bytes) -> list[tuple[int, str]]:
    """Returns the exit code of each export, and the place of its fault."""
    names: list[str] = []
    for number, export in enumerate(exports):
        (folder / f"{number}.ndjson").write_bytes(export)
        names.append(f"{number}.ndjson")
    options = [word for key in keys or (signer().public,) for word in ("--key", key.hex())]
    command = ["node", str(SCRIPT), *options, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = [(CODES[it.partition(":")[0]], place_of(it)) for it in done.stdout.splitlines()]
    assert done.returncode == max([code for code, _ in found]), done.stderr
    assert len(found) == len(exports)
    return found


def codes(folder: Path, exports: Sequence[bytes], *keys: bytes) -> list[int]:
    """Returns the exit code of each export."""
    return [code for code, _ in verdicts(folder, exports, *keys)]
