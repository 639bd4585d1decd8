"""Checks of options that are collections of texts, or tables by name. Pure.

A text is a collection of its letters, and `"end" in "send"` is true. An option that expects names
and accepts one text would therefore match parts of names, so `checked_names` refuses it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from taofold.core.errors import ConfigError


def checked_names(value: Any, path: str, *, secret: bool = False) -> tuple[str, ...]:
    """Returns the texts of a collection.

    >>> checked_names(["a", "b"], "policy.deny")
    ('a', 'b')

    Args:
        value: The value of the option.
        path: The option, such as "policy.deny".
        secret: True leaves the values out of the message.

    Raises:
        ConfigError: It is a single text, a mapping or no collection, or an entry is not a text.
    """
    option = path.rpartition(".")[2]
    if isinstance(value, str):
        entry = "…" if secret else repr(value)
        raise ConfigError(f"is a collection of texts: write {option}={{{entry}}}", path=path)
    items: tuple[Any, ...] = ()
    valid = isinstance(value, Iterable) and not isinstance(value, bytes | Mapping)
    if valid:
        items = tuple(cast("Iterable[Any]", value))
        valid = all([isinstance(item, str) for item in items])
    if not valid:
        shown = "" if secret else f", not {value!r}"
        raise ConfigError(f"is a collection of texts{shown}", path=path)
    return items


def check_table(
    value: Any, path: str, example: str, fits: Callable[[Any], bool], wanted: str
) -> None:
    """Checks that the option is a mapping whose keys are texts and whose values fit.

    Args:
        value: The value of the option.
        path: The option, such as "policy.tiers".
        example: An example of its value, for the message.
        fits: Returns whether a value of the mapping is valid.
        wanted: The description of a valid value.

    Raises:
        ConfigError: It is no mapping, a key is no text, or a value does not fit.
    """
    if not isinstance(value, Mapping):
        option = path.rpartition(".")[2]
        raise ConfigError(f"is a mapping: write {option}={example}, not {value!r}", path=path)
    for name, entry in cast("Mapping[Any, Any]", value).items():
        if not isinstance(name, str):
            raise ConfigError(f"has the key {name!r}, which is not a text", path=path)
        if not fits(entry):
            raise ConfigError(f"{wanted}, not {entry!r}", path=f"{path}.{name}")


def check_flag(value: Any, path: str) -> None:
    """Checks that the option is True or False: a text such as "false" would count as true.

    Raises:
        ConfigError: It is neither.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"is True or False, not {value!r}", path=path)


def is_text(value: Any) -> bool:
    """Returns whether the value is a text."""
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    """Returns whether the value is a whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
