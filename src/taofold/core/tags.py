"""Tags of a run: names with values, set by callers, that filter lists of runs.

A filter is the text `name=value`. Knows nothing about logs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from taofold.core.errors import ConfigError

MOST_TAGS: Final = 16
"""Maximum number of tags of one run."""
LONGEST_VALUE: Final = 200
"""Maximum length of a tag's value, in characters."""
RESERVED_PREFIX: Final = "taofold."
"""Names of tags that only taofold itself sets begin with it."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def checked_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the tags as a dict.

    Raises:
        ConfigError: There are more than 16 tags, or a name or a value is invalid. A name has 1 to
            64 ASCII letters, digits, ".", "_" and "-", and does not begin with "taofold."; a value
            has 1 to 200 printable characters.
    """
    checked = _valid(tags)
    if own := [name for name in checked if name.startswith(RESERVED_PREFIX)]:
        raise ConfigError(
            f"{own[0]!r} is reserved: taofold sets the tags that begin with {RESERVED_PREFIX!r}",
            path="tags",
        )
    return checked


def _valid(tags: Mapping[str, str] | None) -> dict[str, str]:
    given: Any = {} if tags is None else tags
    if not isinstance(given, Mapping):
        raise ConfigError(f'must be a mapping such as {{"team": "x"}}, not {given!r}', path="tags")
    checked: dict[str, str] = {}
    for name, value in cast("Mapping[Any, Any]", given).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f'{name!r} is not a valid tag name: use 1 to 64 of A-Z a-z 0-9 "." "_" "-"',
                path="tags",
            )
        if not isinstance(value, str) or not 0 < len(value) <= LONGEST_VALUE:
            raise ConfigError(
                f"{name!r} must have a text of 1 to {LONGEST_VALUE} characters, not {value!r}",
                path="tags",
            )
        if not value.isprintable():
            raise ConfigError(f"the value of {name!r} has unprintable characters", path="tags")
        checked[name] = value
    if len(checked) > MOST_TAGS:
        raise ConfigError(f"a run has at most {MOST_TAGS} tags, not {len(checked)}", path="tags")
    return checked


def tag_text(name: str, value: str) -> str:
    """Returns the tag in the form of filters and lists."""
    return f"{name}={value}"


def checked_filter(text: str) -> str:
    """Returns `text` if it is `name=value`, or "".

    Raises:
        ConfigError: It is not a valid tag.
    """
    if text:
        name, _, value = text.partition("=")
        _valid({name: value})
    return text
