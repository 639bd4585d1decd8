"""Meaning as one more signal of the search, for a registry that was given a model of sentences.

The words find the patterns, as ever; of those that they find, the ones that mean the same as
the case come first. A vector is worked out once for a text and kept. Knows no model.
"""

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from taofold.core.errors import ConfigError, ModelError
from taofold.learning.patterns.pattern import LoopCase

_UNRELATED: Final = 0.2
"""The cosine up to which two texts have nothing to do with one another."""
_SAME: Final = 0.8
_LONGEST: Final = 2000
"""Characters of a text that are looked at; models of sentences read about half of them."""


class Embedder(Protocol):
    """A model of sentences. May raise `ModelError`: then words alone decide.

    Example of one:

        class Hashing:
            name = "hashing-256"

            async def embed(self, texts):
                return [scaled_to_one(hashed_words(text, 256)) for text in texts]

        registry = Registry(book, now, Hashing())
    """

    @property
    def name(self) -> str:
        """Which model: vectors of two models are never compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector of length 1 for each text."""
        ...


class Vectors(Protocol):
    """Keeps vectors by the model's name and a key."""

    async def vectors(self, model: str, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Those that are kept of `keys`."""
        ...

    async def keep_vectors(self, model: str, new: Mapping[bytes, bytes]) -> None:
        """Keep them."""
        ...


class Meanings(NamedTuple):
    """How much patterns, by id, mean what a case means, 0 to 1; or why that is not known."""

    known: Mapping[str, float] = {}
    faults: tuple[tuple[str, str], ...] = ()


def question(case: LoopCase) -> str:
    """What a case is about, in the order in which a model of sentences should read it."""
    errors = [f"{check.error_type}: {check.message}" for check in case.failing]
    return "\n".join([*errors, case.task])[:_LONGEST]


async def meanings(
    kept: Vectors, embedder: Embedder, case: LoopCase, texts: Mapping[str, str]
) -> Meanings:
    """How much each of `texts`, by the ids of patterns, means what the case means.

    A model that cannot be asked costs its signal, not the search.

    Raises:
        ConfigError: it answers with other vectors than those kept under its name.
    """
    if not texts:
        return Meanings()
    try:
        return Meanings(await _compared(kept, embedder, case, texts))
    except ModelError as error:
        return Meanings({}, ((embedder.name, f"meanings were not compared: {error}"),))


async def _compared(
    kept: Vectors, embedder: Embedder, case: LoopCase, texts: Mapping[str, str]
) -> dict[str, float]:
    keys = {identity: _key(text) for identity, text in texts.items()}
    vectors = dict(await kept.vectors(embedder.name, list(keys.values())))
    missing = {key: texts[name][:_LONGEST] for name, key in keys.items() if key not in vectors}
    # One call for the question and every text without a vector.
    fresh = await embedder.embed([question(case), *missing.values()])
    if len(fresh) != 1 + len(missing):
        raise ConfigError(
            f"the embedder {embedder.name!r} gave {len(fresh)} vectors to {1 + len(missing)} texts"
        )
    target = array("f", fresh[0])
    new = {
        key: array("f", vector).tobytes() for key, vector in zip(missing, fresh[1:], strict=True)
    }
    if new:
        await kept.keep_vectors(embedder.name, new)
    vectors |= new
    if any(len(vector) != len(target) * target.itemsize for vector in vectors.values()):
        raise ConfigError(
            f"the embedder {embedder.name!r} has {len(target)} dimensions, vectors that are kept "
            "under this name have others: give another model another name"
        )
    return {identity: sense(_dot(target, vectors[key])) for identity, key in keys.items()}


def sense(cosine: float) -> float:
    """A cosine as a part of relevance, 0 to 1."""
    part = (cosine - _UNRELATED) / (_SAME - _UNRELATED)
    return min(part, 1.0) if part > 0 else 0.0  # 0 also if it is no number


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _dot(one: Sequence[float], packed: bytes) -> float:
    other = array("f")
    other.frombytes(packed)
    return sum([a * b for a, b in zip(one, other, strict=True)])
