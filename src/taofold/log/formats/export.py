"""The export and import formats of a run, by name. Text only: callers handle files.

| name | holds | imported as |
|---|---|---|
| `ndjson` | every record, and the blobs that they reference | the same records |
| `tao-yaml` | thoughts, actions, observations, violations, outcome | an imported run |
| `tao-iteration` | thoughts, actions, observations | an imported run |
| `react-json` | thought, action, input, observation, answer | an imported run |
| `tao-text` | thoughts, actions, observations as text for readers | – |
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias, get_args

from taofold.core.errors import ConfigError
from taofold.core.events import Record
from taofold.log.formats import ndjson as ndjson
from taofold.log.formats import react_json as react_json
from taofold.log.formats import tao_text as tao_text
from taofold.log.formats import tao_yaml as tao_yaml
from taofold.policy.redaction.views import shown

Format: TypeAlias = Literal["ndjson", "tao-yaml", "tao-iteration", "react-json"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
"""The formats that are written and read."""
WRITTEN: Final = (*FORMATS, "tao-text")
"""The formats that are written."""


def export(
    records: Iterable[Record],
    format: str = "ndjson",  # noqa: A002 - the public name of the option
    blobs: Mapping[str, bytes] = {},
) -> str:
    """Returns the run as text; NDJSON includes the `blobs` (digest to bytes) of its records.

    Raises:
        ConfigError: There is no such format.
    """
    match format:
        case "ndjson":
            return ndjson.dumps(records, blobs)
        case "tao-yaml":
            return tao_yaml.dumps([shown(record) for record in records])
        case "tao-iteration":
            return tao_yaml.dumps_iterations([shown(record) for record in records])
        case "react-json":
            return react_json.dumps([shown(record) for record in records])
        case "tao-text":
            return tao_text.dumps([shown(record) for record in records])
        case _:
            raise ConfigError(f"unknown format {format!r}: use one of {', '.join(WRITTEN)}")


def read(
    text: str,
    format: str = "ndjson",  # noqa: A002 - the public name of the option
    *,
    run: str = "",
    at: int = 0,
    strict: bool = False,
    source: str = "",
) -> list[Record]:
    """Returns the records in `text`, under the id `run` if one is given.

    Args:
        text: The document.
        format: Its format.
        run: Replaces the run id of the document.
        at: Time in milliseconds since the epoch for entries without one.
        strict: Rejects faults that would be repaired otherwise.
        source: Name of the document in errors.

    Raises:
        ConfigError: There is no such format, or the text is not in it.
    """
    source = source or format
    match format:
        case "ndjson":
            return ndjson.loads(text, run=run, source=source)
        case "tao-yaml" | "tao-iteration":
            return tao_yaml.loads(text, run=run, at=at, strict=strict, source=source)
        case "react-json":
            return react_json.loads(text, run=run, at=at, source=source)
        case "tao-text":
            raise ConfigError(f"tao-text is only written: import one of {', '.join(FORMATS)}")
        case _:
            raise ConfigError(f"unknown format {format!r}: use one of {', '.join(FORMATS)}")


def read_blobs(
    text: str,
    records: Iterable[Record],
    format: str = "ndjson",  # noqa: A002 - the public name of the option
    *,
    source: str = "",
) -> dict[str, bytes]:
    """Returns the bytes by digest that `text` holds for its `records`; only `ndjson` has any.

    Raises:
        ConfigError: They are not those that the records reference.
    """
    return ndjson.load_blobs(text, records, source=source or format) if format == "ndjson" else {}
