"""The forms in which a run leaves and enters a log, by name. Text only: files are the caller's.

| name | holds | comes back as |
|---|---|---|
| `ndjson` | every record, and the bytes that they name | the same records |
| `tao-yaml` | thoughts, actions, observations, violations, outcome | an imported run |
| `react-json` | thought, action, input, observation, answer | an imported run |
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias, get_args

from taofold.core.errors import ConfigError
from taofold.core.events import Record
from taofold.log.formats import ndjson as ndjson
from taofold.log.formats import react_json as react_json
from taofold.log.formats import tao_yaml as tao_yaml
from taofold.policy.redaction.views import shown

Format: TypeAlias = Literal["ndjson", "tao-yaml", "react-json"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


def export(
    records: Iterable[Record],
    format: str = "ndjson",  # noqa: A002 - the word
    blobs: Mapping[str, bytes] = {},
) -> str:
    """The run as text, with the `blobs` (digest to bytes) that its records name, if it can.

    Raises:
        ConfigError: there is no such format.
    """
    match format:
        case "ndjson":
            return ndjson.dumps(records, blobs)
        case "tao-yaml":
            return tao_yaml.dumps([shown(record) for record in records])
        case "react-json":
            return react_json.dumps([shown(record) for record in records])
        case _:
            raise _unknown(format)


def read(
    text: str,
    format: str = "ndjson",  # noqa: A002 - the word
    *,
    run: str = "",
    at: int = 0,
    strict: bool = False,
    source: str = "",
) -> list[Record]:
    """The records in `text`, under the id `run` if one is given.

    `at` (milliseconds) dates what has no time; `strict` refuses what would be mended;
    `source` is named in errors.

    Raises:
        ConfigError: there is no such format, or the text is not in it.
    """
    source = source or format
    match format:
        case "ndjson":
            return ndjson.loads(text, run=run, source=source)
        case "tao-yaml":
            return tao_yaml.loads(text, run=run, at=at, strict=strict, source=source)
        case "react-json":
            return react_json.loads(text, run=run, at=at, source=source)
        case _:
            raise _unknown(format)


def read_blobs(
    text: str,
    records: Iterable[Record],
    format: str = "ndjson",  # noqa: A002 - the word
    *,
    source: str = "",
) -> dict[str, bytes]:
    """The bytes by digest that `text` carries for its `records`; only `ndjson` has any.

    Raises:
        ConfigError: they are not those that the records name.
    """
    return ndjson.load_blobs(text, records, source=source or format) if format == "ndjson" else {}


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"unknown format {name!r}: use one of {', '.join(FORMATS)}")
