"""Foreign YAML documents, read field by field; errors name path and line.

YAML 1.2 is read as JSON values. Aliases, tags and duplicate keys are rejected: a foreign document
must not grow in memory, construct objects or define a key twice. Times stay text. Knows no formats:
the caller defines the fields.
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
    """The value at `path` in the document is invalid."""

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
        """Returns the raw value of the first present key of `keys`. Two of them are an error."""
        # With two spellings of one field in a document it is ambiguous which one is meant.
        there = [key for key in keys if key in self._value]
        self._taken.update(there)
        if len(there) > 1:
            raise DocumentFault(
                (*self.path, there[1]), f"says the same as {there[0]!r}: keep one of them"
            )
        return self._value[there[0]] if there else default

    def has(self, key: str) -> bool:
        """Returns whether `key` is present and not null."""
        return self._value.get(key) is not None

    def text(self, *keys: str, default: str = "") -> str:
        """Returns a string."""
        return self._typed(keys, str, default, "text")

    def flag(self, key: str, default: bool = False) -> bool:
        """Returns true or false."""
        return self._typed((key,), bool, default, "true or false")

    def number(self, key: str) -> float | None:
        """Returns a finite number, or None."""
        value = self.take(key)
        if value is None:
            return None
        # In Python True is an int; in a document it is no number.
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, value, "a number")
        try:
            # A whole number of many digits has no such form.
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._wrong(key, value, "a finite number")
        return value

    def whole(self, *keys: str, default: int) -> int:
        """Returns a whole number."""
        value = self.take(*keys, default=default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(keys[0], value, "a whole number")
        return value

    def listed(self, key: str) -> list[Any]:
        """Returns a list, empty if it is missing."""
        value: list[Any] = self._typed((key,), list, [], "a list")
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """Returns a list of strings."""
        value = self.listed(key)
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise DocumentFault((*self.path, key, index), f"must be text, got {_short(item)}")
        return tuple(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        """Returns a list of whole numbers."""
        value = self.listed(key)
        for index, item in enumerate(value):
            if isinstance(item, bool) or not isinstance(item, int):
                raise DocumentFault(
                    (*self.path, key, index), f"must be a whole number, got {_short(item)}"
                )
        return tuple(value)

    def json(self, *keys: str) -> Any:
        """Returns any JSON value."""
        value = self.take(*keys)
        return check_json(value, (*self.path, *[key for key in keys if key in self._value][:1]))

    def mapping(self, key: str) -> dict[str, Any]:
        """Returns a JSON object, empty if it is missing."""
        value: dict[str, Any] = self._typed((key,), dict, {}, "a mapping")
        check_json(value, (*self.path, key))
        return value

    def instant(self, key: str, default: int) -> int:
        """Returns an ISO 8601 time as milliseconds since the epoch."""
        value = self.text(key)
        if not value:
            return default
        try:
            return milliseconds(value)
        except ValueError:
            self._wrong(key, value, "an ISO 8601 time such as 2026-01-25T10:30:01.150Z")

    def rest(self) -> dict[str, Any]:
        """Returns the remaining fields as a JSON object."""
        left = {key: value for key, value in self._value.items() if key not in self._taken}
        self._taken.update(left)
        check_json(left, self.path)
        return left

    def close(self) -> None:
        """Rejects remaining fields."""
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
    """Returns `value` if it is JSON that a log can keep.

    Raises:
        DocumentFault: A type, number or character that JSON lacks, or excessive depth.
    """
    # An explicit stack: a document may be nested deeper than Python's recursion limit.
    left: list[tuple[Any, Path]] = [(value, path)]
    while left:
        item, location = left.pop()
        # The path is as long as the value is deep, so its length is the depth.
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
            # Rejected here, with its path: the log would reject it later, without the place.
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
    """Returns a path as `iterations[2].action.tool`."""
    spelling = ""
    for part in path:
        spelling += f"[{part}]" if isinstance(part, int) else f".{part}" if spelling else str(part)
    return spelling


def config_error(fault: DocumentFault, source: str, line: int) -> ConfigError:
    """Returns the fault as the error for the caller."""
    location = path_text(fault.path)
    message = f"{location} {fault}" if location else str(fault)
    return ConfigError(message, path=f"{source}:{line}" if line else source)


def _short(value: Any) -> str:
    return clip(repr(value), 60)


# ruamel.yaml has few parameter types; ours are complete.
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
    """Without timestamps: they stay text."""


# Python's dates would lose the offset and the spelling; `instant` parses times.
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
    """Returns whether a block scalar preserves `data` for every reader."""
    lines = data.split("\n")
    whole = len(lines) > 1 and bool(data.strip())
    return whole and all(line.isprintable() and line == line.rstrip(" ") for line in lines)


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.Constructor, yaml.Representer = _Composer, _Constructor, _Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    # No line breaks that the text lacks: ruamel folds at 80 columns otherwise.
    yaml.width = 1 << 20
    # Keys keep their order instead of an alphabetical one.
    setattr(yaml, "sort_base_mapping_type_on_output", False)  # noqa: B010 - typed as None
    return yaml


def dump(value: Any) -> str:
    """Returns `value`, JSON, in block style; strings of several lines become blocks."""
    out = StringIO()
    _yaml().dump(value, out)
    return out.getvalue()


def load(text: str, source: str) -> list[Any]:
    """Returns the documents in `text`.

    Raises:
        ConfigError: It is not YAML, or uses a rejected feature; the path is `source:line`.
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
    """Returns the line, from 1, of `path` or of its nearest enclosing node; 0 if unknown."""
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
    """Returns the documents of `text` as nodes with line numbers; () if it is unreadable."""
    # Parsed a second time, only for an error message: the values of `load` have no lines. Cached,
    # because a text with many errors would otherwise be parsed for each of them.
    try:
        return tuple(_yaml().compose_all(text))
    except (YAMLError, ValueError, RecursionError):
        return ()


def _inside(node: Any, part: str | int) -> tuple[Any, int] | None:
    """Returns the node at `part` of `node`, and its line."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        inner = node.value[part]
        return inner, inner.start_mark.line + 1
    return None
