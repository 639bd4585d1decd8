"""YAML documents from elsewhere, read field by field; faults are named with their path and line.

YAML 1.2 is read as strings: JSON values out and in. Aliases, tags and duplicate keys are refused:
a document from elsewhere may not grow in memory, construct objects or say a thing twice. Times
stay text. Knows no formats: what fields there are is the caller's.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from io import StringIO
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip, milliseconds

Path: TypeAlias = tuple[str | int, ...]
T = TypeVar("T")
_DEEPEST: Final = 100


class DocumentFault(Exception):
    """Something at `path` in the document is not as it must be."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


class Fields:
    """A mapping of the document, read once, key by key."""

    def __init__(self, value: Any, path: Path) -> None:
        if not is_object(value):
            raise DocumentFault(path, f"must be a mapping, got {_short(value)}")
        self._value = value
        self._taken: set[str] = set()
        self.path = path

    def take(self, *keys: str, default: Any = None) -> Any:
        """The raw value of the first of `keys` that is there. Two of them are a fault."""
        # Two spellings of one thing in a document would leave open which is meant.
        there = [key for key in keys if key in self._value]
        self._taken.update(there)
        if len(there) > 1:
            raise DocumentFault(
                (*self.path, there[1]), f"says the same as {there[0]!r}: keep one of them"
            )
        return self._value[there[0]] if there else default

    def has(self, key: str) -> bool:
        """Is `key` there and not null?"""
        return self._value.get(key) is not None

    def text(self, *keys: str, default: str = "") -> str:
        """A string."""
        return self._typed(keys, str, default, "text")

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return self._typed((key,), bool, default, "true or false")

    def number(self, key: str) -> float | None:
        """A finite number."""
        value = self.take(key)
        if value is None:
            return None
        # In Python True is an int; in a document it is no number.
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, value, "a number")
        if not math.isfinite(value):
            self._wrong(key, value, "a finite number")
        return value

    def whole(self, *keys: str, default: int) -> int:
        """A whole number."""
        value = self.take(*keys, default=default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(keys[0], value, "a whole number")
        return value

    def listed(self, key: str) -> list[Any]:
        """A list, empty if it is missing."""
        value: list[Any] = self._typed((key,), list, [], "a list")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.listed(key)
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise DocumentFault((*self.path, key, index), f"must be text, got {_short(item)}")
        return tuple(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        value = self.listed(key)
        for index, item in enumerate(value):
            if isinstance(item, bool) or not isinstance(item, int):
                raise DocumentFault(
                    (*self.path, key, index), f"must be a whole number, got {_short(item)}"
                )
        return tuple(value)

    def json(self, *keys: str) -> Any:
        """Any JSON value."""
        value = self.take(*keys)
        return check_json(value, (*self.path, *[key for key in keys if key in self._value][:1]))

    def mapping(self, key: str) -> dict[str, Any]:
        """A JSON object, empty if it is missing."""
        value: dict[str, Any] = self._typed((key,), dict, {}, "a mapping")
        check_json(value, (*self.path, key))
        return value

    def instant(self, key: str, default: int) -> int:
        """An ISO 8601 time, as milliseconds since the epoch."""
        value = self.text(key)
        if not value:
            return default
        try:
            return milliseconds(value)
        except ValueError:
            self._wrong(key, value, "an ISO 8601 time such as 2026-01-25T10:30:01.150Z")

    def rest(self) -> dict[str, Any]:
        """What was not taken yet, as a JSON object."""
        left = {key: value for key, value in self._value.items() if key not in self._taken}
        self._taken.update(left)
        check_json(left, self.path)
        return left

    def close(self) -> None:
        """Nothing may be left over."""
        for key in self._value:
            if key not in self._taken:
                raise DocumentFault((*self.path, key), "unknown field: remove it, or move it")

    def _typed(self, keys: tuple[str, ...], kind: type[T], default: T, name: str) -> T:
        value = self.take(*keys)
        if value is None:
            return default
        if not isinstance(value, kind):
            self._wrong(next(key for key in keys if key in self._value), value, name)
        if isinstance(value, str):
            check_json(value, self.path)
        return value

    def _wrong(self, key: str, value: Any, name: str) -> NoReturn:
        raise DocumentFault((*self.path, key), f"must be {name}, got {_short(value)}")


def check_json(value: Any, path: Path) -> Any:
    """`value`, which is JSON that a log can keep.

    Raises:
        DocumentFault: a type, number or character that JSON cannot say, or absurd depth.
    """
    # A stack of its own: a document may be nested deeper than Python recurses.
    left: list[tuple[Any, Path]] = [(value, path)]
    while left:
        item, location = left.pop()
        # The path is as long as the value is deep, so it counts the depth by itself.
        if len(location) > _DEEPEST:
            raise DocumentFault(path, f"is nested more than {_DEEPEST} deep")
        if isinstance(item, dict):
            mapping = cast("dict[Any, Any]", item)  # YAML has keys of any type
            for key in mapping:
                if not isinstance(key, str):
                    raise DocumentFault((*location, key), f"a key must be text, got {_short(key)}")
                check_json(key, location)
            left.extend((inner, (*location, key)) for key, inner in mapping.items())
        elif is_array(item):
            left.extend((inner, (*location, index)) for index, inner in enumerate(item))
        else:
            _leaf(item, location)
    return value


def _leaf(item: Any, place: Path) -> None:
    if isinstance(item, str):
        try:
            # Refused here, with its path: the log would refuse it later, when
            # nobody knows where it stood.
            item.encode()
        except UnicodeEncodeError:
            raise DocumentFault(
                place, "holds half of a surrogate pair, which is no character"
            ) from None
    elif isinstance(item, float) and not math.isfinite(item):
        raise DocumentFault(place, f"{item!r} is not a JSON number")
    elif item is not None and not isinstance(item, bool | int | float):
        raise DocumentFault(place, f"{_short(item)} is not JSON: write it as text")


def path_text(path: Sequence[str | int]) -> str:
    """`iterations[2].action.tool`."""
    spelling = ""
    for part in path:
        spelling += f"[{part}]" if isinstance(part, int) else f".{part}" if spelling else str(part)
    return spelling


def config_error(fault: DocumentFault, source: str, line: int) -> ConfigError:
    """The fault as the error that a caller sees."""
    location = path_text(fault.path)
    message = f"{location} {fault}" if location else str(fault)
    return ConfigError(message, path=f"{source}:{line}" if line else source)


def _short(value: Any) -> str:
    return clip(repr(value), 60)


# ruamel.yaml leaves most of its parameters without types; ours are all there.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false


class _Composer(Composer):
    def compose_node(self, parent: Any, index: Any) -> Any:
        # A few lines of aliases can expand to gigabytes (the "billion laughs").
        if self.parser.check_event(AliasEvent):
            mark = self.parser.peek_event().start_mark
            raise MarkedYAMLError(None, None, "aliases are not read: repeat the value", mark)
        return super().compose_node(parent, index)


class _Constructor(SafeConstructor):
    """Without times: they stay the text they are."""


# Python's dates would lose the offset and the spelling; times are read by `instant`.
_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


class _Representer(SafeRepresenter):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> Any:
        # Quotes where a block would lose something: trailing spaces, tabs, control characters.
        style = None if data.isprintable() else "|" if _plain(data) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.text)


def _plain(data: str) -> bool:
    """Can a block scalar hold `data` so that every reader gets the same back?"""
    lines = data.split("\n")
    whole = len(lines) > 1 and bool(data.strip())
    return whole and all(line.isprintable() and line == line.rstrip(" ") for line in lines)


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.Constructor, yaml.Representer = _Composer, _Constructor, _Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    # No line breaks where the text has none: ruamel folds at 80 columns otherwise.
    yaml.width = 1 << 20
    # The order of the keys is that of the reader's interest, not of the alphabet.
    setattr(yaml, "sort_base_mapping_type_on_output", False)  # noqa: B010 - typed as None
    return yaml


def dump(value: Any) -> str:
    """`value`, which is JSON, as a block-style document; strings of several lines as blocks."""
    out = StringIO()
    _yaml().dump(value, out)
    return out.getvalue()


def load(text: str, source: str) -> list[Any]:
    """The documents in `text`.

    Raises:
        ConfigError: it is not YAML, or uses what is refused; the path is `source:line`.
    """
    try:
        return list(_yaml().load_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        path = f"{source}:{mark.line + 1}" if mark is not None else source
        raise ConfigError(f"not readable YAML: {error.problem or error}", path=path) from None
    except (YAMLError, ValueError, RecursionError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else error
        raise ConfigError(f"not readable YAML: {problem}", path=source) from None


def line(text: str, path: Path, document: int = 0) -> int:
    """The line, from 1, at which `path` stands, or the nearest thing around it; 0 if unknown."""
    nodes = _nodes(text)
    if len(nodes) <= document:
        return 0
    node: Any = nodes[document]
    line: int = 0 if node is None else node.start_mark.line + 1
    for part in path:
        inside = _inside(node, part)
        if inside is None:
            break
        node, line = inside
    return line


@lru_cache(maxsize=1)
def _nodes(text: str) -> Sequence[Any]:
    """The documents of `text` as nodes, which know their lines; () if it cannot be read."""
    # Read a second time, and only for an error message: the values that `load` gives carry no
    # lines. Kept, for a text with many faults would else be read for each of them.
    try:
        return tuple(_yaml().compose_all(text))
    except (YAMLError, ValueError, RecursionError):
        return ()


def _inside(node: Any, part: str | int) -> tuple[Any, int] | None:
    """The node at `part` of `node`, and its line."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        inner = node.value[part]
        return inner, inner.start_mark.line + 1
    return None
