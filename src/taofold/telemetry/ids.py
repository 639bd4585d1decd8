"""Ids of traces and spans, derived from the run's id, so that they are the same each time.

Pure. OpenTelemetry wants 16 and 8 bytes, Opik wants UUIDs of version 7, whose first 48 bits
are a time.
"""

import re
from hashlib import blake2b
from typing import Final
from uuid import UUID

_CHILD: Final = re.compile(r"\.(\d+(?:-\d+)*-\d+)\Z")
"""How the runtime names the run of an agent that serves a call: `<run>.<key>-<index>`."""
_DATED: Final = re.compile(r"([0-9a-f]{11})[0-9a-f]{8}")
"""A run id of ours begins with the milliseconds since the epoch."""
_RANDOM: Final = 74
"""Bits of a UUIDv7 that are not time, version or variant."""


def root_run(run: str, parent: str) -> str:
    """The run whose trace `run` belongs to: its eldest ancestor."""
    if not parent:
        return run
    while (found := _CHILD.search(parent)) is not None:
        parent = parent[: found.start()]
    return parent


def dated(run: str) -> int | None:
    """When the run was named, if its id says so."""
    found = _DATED.fullmatch(run)
    return None if found is None else int(found[1], 16)


def call_part(key: str, index: int, time: int = 0) -> str:
    """The part of a span's id that stands for a call; `time` counts how often it was rewound."""
    place = f"{key.replace('.', '-')}-{index}"
    return f"call {place}" if not time else f"call {place} again {time}"


def parent_part(run: str, parent: str) -> str:
    """The same for what a child run hangs on: the call that it serves, else the whole parent."""
    found = _CHILD.search(run)
    if found is not None and run[: found.start()] == parent:
        return f"call {found[1]}"
    return "run"


def trace_id(root: str) -> str:
    """32 hex digits."""
    return blake2b(root.encode(), digest_size=16, person=b"taofold.trace").hexdigest()


def span_id(run: str, part: str) -> str:
    """16 hex digits for one span of `run`."""
    said = f"{run}\x1f{part}".encode()
    return blake2b(said, digest_size=8, person=b"taofold.span").hexdigest()


def uuid7(at: int, said: str) -> str:
    """The UUID of version 7 for `said`, which began at `at` (milliseconds since the epoch)."""
    digest = blake2b(said.encode(), digest_size=10, person=b"taofold.uuid").digest()
    random = int.from_bytes(digest) & ((1 << _RANDOM) - 1)
    high, low = random >> 62, random & ((1 << 62) - 1)
    time = at & ((1 << 48) - 1)
    return str(UUID(int=time << 80 | 7 << 76 | high << 64 | 2 << 62 | low))
