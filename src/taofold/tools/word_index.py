"""A full-text index of short texts in memory, ranked by BM25 (SQLite's FTS5).

It is for some hundred texts, such as the tools of an agent or the notes of a notebook, and is built
for each use. Knows nothing about either.
"""

import re
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from typing import Any, Final
from unicodedata import normalize

from taofold.core.errors import ConfigError

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\dA-Za-z_]+")
_ACCENTS: Final = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
_LONGEST: Final = 1_000
"""Maximum characters of a query that are read."""


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case; `createIssue` and `create_issue` have two.

    Scripts without blanks between words give pairs of letters, too. Accents of Latin letters are
    left out: models and users often omit them.

    >>> words("Müller's createCafé")
    ['muller', 's', 'create', 'cafe']
    """
    found: list[str] = []
    plain = normalize("NFC", _ACCENTS.sub("", normalize("NFKD", text.replace("ß", "ss"))))
    for word in _WORD.findall(plain):
        found.append(word.casefold())
        if not word.isascii():
            found += [word[at : at + 2].casefold() for at in range(len(word) - 1)]
    return found


class WordIndex:
    """An index of texts. Each has one or more fields.

    Args:
        texts: The fields of each text, equally many.
        weights: The weight of matches in each field.

    Raises:
        ConfigError: SQLite has no FTS5.
    """

    def __init__(self, texts: Sequence[Sequence[str]], weights: Sequence[float] = (1.0,)) -> None:
        # Searched by worker threads, one at a time.
        self._lock = Lock()
        # Loaded with the first index: most agents search nothing.
        sqlite3: Any = import_module("sqlite3")
        self._base: Any = sqlite3.connect(":memory:", check_same_thread=False)
        fields = ", ".join([f"field{number}" for number in range(len(weights))])
        try:
            self._base.execute(
                f"CREATE VIRTUAL TABLE texts USING fts5({fields}, tokenize='porter')"
            )
        except sqlite3.OperationalError as error:
            raise ConfigError(f"a search of words needs SQLite with FTS5: {error}") from error
        marks = ", ".join("?" * len(weights))
        rows = [[" ".join(words(field)) for field in text] for text in texts]
        self._base.executemany(f"INSERT INTO texts VALUES ({marks})", rows)  # noqa: S608 - marks
        scores = ", ".join(map(str, weights))
        self._find = (
            "SELECT rowid FROM texts WHERE texts MATCH ? "  # noqa: S608 - numbers
            f"ORDER BY bm25(texts, {scores}), rowid"
        )

    def find(self, query: str) -> list[int]:
        """Returns the positions of texts that share words with `query`, the best match first.

        Texts with equal scores keep their order.
        """
        # Quoted: words of a model are no operators of the query.
        wanted = [f'"{word}"' for word in dict.fromkeys(words(query[:_LONGEST]))]
        if not wanted:
            return []
        with self._lock:
            rows = self._base.execute(self._find, (" OR ".join(wanted),)).fetchall()
        return [rowid - 1 for (rowid,) in rows]
