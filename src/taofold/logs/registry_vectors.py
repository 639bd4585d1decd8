"""Vectors of texts beside the registry's tables: a cache, filled when it is asked.

By the model's name and the text's digest, so that nothing in it is ever out of date.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

_TABLE: Final = (
    "create table if not exists pattern_vectors(model text not null, key blob not null, "
    "vector blob not null, primary key(model, key)) without rowid"
)
_HAS: Final = "select 1 from sqlite_master where name = 'pattern_vectors'"


def vectors(db: sqlite3.Connection, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Those of `keys` that are kept."""
    if db.execute(_HAS).fetchone() is None:
        return {}
    marks = ",".join("?" * len(keys))
    rows = db.execute(
        f"select key, vector from pattern_vectors where model = ? and key in ({marks})",  # noqa: S608 - marks only
        (model, *keys),
    )
    return dict(rows.fetchall())


def keep(db: sqlite3.Connection, model: str, new: Mapping[bytes, bytes]) -> None:
    """Keep vectors."""
    db.execute(_TABLE)
    rows = [(model, key, vector) for key, vector in new.items()]
    db.executemany("insert or replace into pattern_vectors values(?, ?, ?)", rows)
