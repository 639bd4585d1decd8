"""all-MiniLM-L6-v2 in numpy: six layers of BERT, mean pooling, length 1.

(Wang et al., 2020; Reimers and Gurevych, 2019.) Knows nothing about where its files come from
or what the vectors are for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import numpy as safetensors
from tokenizers import Tokenizer

Array = npt.NDArray[np.float32]

LAYERS: Final = 6
HEADS: Final = 12
TOKENS: Final = 256
"""Tokens of a text that count."""
BATCH: Final = 32
_EPSILON: Final = 1e-12
_MASKED: Final = np.float32(-1e9)
_ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun 7.1.26: the error function within 1.5e-7."""


class MiniLM:
    """The model. Reading its weights takes no lock: threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(TOKENS)
        self._tokenizer.enable_padding()
        files: Any = safetensors
        self._weights: dict[str, Array] = files.load_file(folder / "model.safetensors")

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text. Texts of like length go together: padding costs time."""
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        result: list[list[float]] = [[] for _ in texts]
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            vectors = self._encode([texts[index] for index in places])
            for position, vector in zip(places, vectors.tolist(), strict=True):
                result[position] = vector
        return result

    def _encode(self, texts: list[str]) -> Array:
        tokens = self._tokenizer.encode_batch(texts)
        ids = np.array([encoding.ids for encoding in tokens])
        mask = np.array([encoding.attention_mask for encoding in tokens], np.float32)
        weights, begin = self._weights, "embeddings."
        x = weights[f"{begin}word_embeddings.weight"][ids]
        x = x + weights[f"{begin}position_embeddings.weight"][: ids.shape[1]]
        x = x + weights[f"{begin}token_type_embeddings.weight"][0]
        x = self._norm(x, f"{begin}LayerNorm")
        # Added to the scores: padding gets a weight of 0 after the softmax.
        hidden = (1 - mask)[:, None, None, :] * _MASKED
        for number in range(LAYERS):
            x = self._layer(x, hidden, f"encoder.layer.{number}.")
        # The mean over real tokens only.
        pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        length: Array = np.linalg.norm(pooled, axis=1, keepdims=True).astype(np.float32)
        vectors: Array = (pooled / np.maximum(length, np.float32(_EPSILON))).astype(np.float32)
        return vectors

    def _layer(self, x: Array, hidden: Array, name: str) -> Array:
        query, key, value = (
            self._split(self._linear(x, f"{name}attention.self.{part}"))
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1])) + hidden
        # Less the largest, so that exp cannot overflow.
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        mixed = (weights @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = self._norm(
            x + self._linear(mixed, f"{name}attention.output.dense"),
            f"{name}attention.output.LayerNorm",
        )
        inner = _gelu(self._linear(x, f"{name}intermediate.dense"))
        return self._norm(x + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _linear(self, x: Array, name: str) -> Array:
        projected: Array = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return projected

    def _norm(self, x: Array, name: str) -> Array:
        mean, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        plain = (x - mean) / np.sqrt(spread + np.float32(_EPSILON))
        normalized: Array = plain * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normalized

    def _split(self, x: Array) -> Array:
        """By head: texts, heads, tokens, dimensions."""
        return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


def _gelu(x: Array) -> Array:
    at = np.abs(x) / np.float32(np.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * at)
    sum_: Any = np.float32(0)
    for factor in reversed(_ERF):
        sum_ = (sum_ + np.float32(factor)) * t
    erf = np.sign(x) * (1 - sum_ * np.exp(-at * at))
    activated: Array = (x * (1 + erf) / 2).astype(np.float32)
    return activated
