"""Runs one contestant over a track; one JSON line before and after each row, on stdout."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from cases import adapter_of, load, outcome, text_of, type_of
from contestants import CONTESTANTS

BUDGET = 0.003
RUNS = 50


def main(name: str, corpus: str, schemas: str, track: str, skip: set[str]) -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout = sys.stderr  # contestants may print
    parse = CONTESTANTS[name]()
    path = Path(schemas)
    for row in load(Path(corpus), track):
        if row["id"] in skip:
            continue
        text = text_of(row)
        type_, adapter = type_of(row["schema"], path), adapter_of(row["schema"], path)
        adapter.json_schema()
        out.write(json.dumps({"start": row["id"]}) + "\n")
        returned, value = run(parse, text, type_, row["schema"])
        best = spent = 0.0
        runs = 0
        gc.collect(0)
        while runs < 3 or (spent < BUDGET and runs < RUNS):
            start = time.process_time()
            run(parse, text, type_, row["schema"])
            taken = time.process_time() - start
            best = taken if not runs else min(best, taken)
            spent += taken
            runs += 1
            if spent > 1:
                break
        if returned:
            try:
                checked = adapter.validate_python(value)
                value = adapter.dump_python(checked, mode="json", warnings=False)
            except Exception:
                returned = False
        result = outcome(row, returned, value)
        out.write(json.dumps({"id": row["id"], "o": result, "us": best * 1e6}) + "\n")
    out.write(json.dumps({"done": True}) + "\n")


def run(parse: Any, text: str, type_: Any, name: str) -> tuple[bool, Any]:
    try:
        return True, parse(text, type_, name)
    except Exception:
        return False, None


if __name__ == "__main__":
    main(*sys.argv[1:5], set(json.loads(sys.argv[5])))
