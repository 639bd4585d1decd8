"""Fits a value to a shape by lossless changes only, each with a price.

Never rounds, clamps, drops items or picks one of two. Depth is bounded by the reader's, work by
a budget. Knows nothing about text.
"""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

from taofold.parsing.outcome import Repair
from taofold.parsing.scalar import MISSING, quantity_of
from taofold.parsing.shape import Shape, fold

Path = tuple[str | int, ...]
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_NULL = frozenset({"null", "none", "nil", "undefined", ""})
_NAMESPACES = ("functions.", "default_api.", "tools.")
_DEPTH = 110
_RANK = {"null": 0, "integer": 1, "number": 2, "boolean": 3, "string": 9}


class Text(str):
    """A value from a form that writes everything as text (YAML, XML, TAO): typed freely."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """One path that does not fit."""

    path: Path
    expected: str
    got: Any


class Misfit(Exception):
    """A value does not fit its shape."""

    def __init__(self, faults: list[Fault], cut: bool = False) -> None:
        super().__init__()
        self.faults = faults
        self.cut = cut


class Coercion:
    """One attempt to fit a value; `opened` names the containers that only the end closed."""

    def __init__(self, opened: Set[int] = frozenset(), budget: int = 1_000_000) -> None:
        self.repairs: list[Repair] = []
        self._opened = opened
        self._budget = budget
        self._depth = 0

    def fit(self, value: Any, shape: Shape, path: Path = ()) -> Any:
        """Returns the fitting value.

        Raises:
            Misfit: With every path that does not fit.
        """
        self._budget -= 1
        if self._depth > _DEPTH or self._budget < 0:
            raise Misfit([Fault(path, "a smaller value", value)])
        kind = shape.kind
        if kind == "string":
            if isinstance(value, str):
                return str(value)
            if isinstance(value, int) and not isinstance(value, bool):
                return self._changed("number_to_text", str(value), path)
            raise Misfit([Fault(path, "a string", value)])
        if kind == "any":
            return self._free(value, path)
        self._depth += 1
        try:
            return self._FITS[kind](self, value, shape, path)
        finally:
            self._depth -= 1

    def _changed(self, kind: str, value: Any, path: Path, cost: int = 2, content: bool = True) -> Any:
        self.repairs.append(Repair(kind, "schema", content, -1, ".".join(map(str, path)), cost))
        return value

    def _free(self, value: Any, path: Path) -> Any:
        if self._opened and id(value) in self._opened:
            raise Misfit([Fault(path, "the end of the value", value)], cut=True)
        if isinstance(value, Text):
            return plain(value)
        if isinstance(value, dict):
            return {k: self.fit(v, _ANY, (*path, k)) for k, v in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            entries = cast("list[Any]", value)
            return [self.fit(each, _ANY, (*path, i)) for i, each in enumerate(entries)]
        return value

    def _object(self, value: Any, shape: Shape, path: Path) -> Any:
        if isinstance(value, str):
            value = self._decoded(value, dict, path)
        if not isinstance(value, dict):
            raise Misfit([Fault(path, "an object", value)])
        given = cast("dict[str, Any]", value)
        opened = bool(self._opened) and id(given) in self._opened
        if opened and (shape.extra is not None or not shape.fields):
            raise Misfit([Fault(path, "the end of the object", value)], cut=True)
        out: dict[str, Any] = {}
        faults: list[Fault] = []
        renamed = 0
        cut = False
        for key, entry in given.items():
            name = key if key in shape.fields else shape.folded.get(fold(key), "")
            if name != key and name and name not in given and name not in out:
                renamed += 1
            elif name != key:
                name = ""
            target = shape.fields.get(name) or shape.extra
            if target is None:
                if shape.closed:
                    faults.append(Fault((*path, key), "no such key", entry))
                continue
            try:
                out[name or key] = self.fit(entry, target, (*path, name or key))
            except Misfit as misfit:
                faults += misfit.faults
                cut = cut or misfit.cut
        needed = shape.fields.keys() if opened else shape.required
        absent = [name for name in shape.fields if name in needed and name not in given]
        absent = [name for name in absent if name not in out]
        if not cut and opened and absent:
            cut = True
        for name in absent:
            if not any(fault.path == (*path, name) for fault in faults):
                faults.append(Fault((*path, name), expectation(shape.fields[name]), MISSING))
        if not out and given and shape.fields and not faults:
            faults.append(Fault(path, f"one of the keys {', '.join(shape.fields)}", value))
        if faults:
            raise Misfit(faults, cut)
        if renamed:
            self._changed("key_case", None, path, renamed, content=False)
        if opened:
            self.repairs.append(Repair("missing_closer", "syntax", True, -1, "", 3))
        return out

    def _array(self, value: Any, shape: Shape, path: Path) -> Any:
        item = shape.item or _ANY
        if isinstance(value, str):
            decoded = self._decoded(value, list, path)
            if isinstance(decoded, list):
                value = cast("list[Any]", decoded)
            elif isinstance(value, Text) and not value.strip():
                value = []
            elif any(each in value for each in ",;\n") or not value.strip():
                raise Misfit([Fault(path, "a list", value)])
        if not isinstance(value, list):
            if value is None or id(value) in self._opened:
                raise Misfit([Fault(path, "a list", value)], cut=value is not None)
            fitted = self.fit(value, item, (*path, 0))
            return self._changed("list_of_one", [fitted], path, 4)
        entries = cast("list[Any]", value)
        if self._opened and id(entries) in self._opened:
            raise Misfit([Fault(path, "the end of the list", entries)], cut=True)
        out: list[Any] = []
        faults: list[Fault] = []
        cut = False
        for index, entry in enumerate(entries):
            target = shape.prefix[index] if index < len(shape.prefix) else item
            try:
                out.append(self.fit(entry, target, (*path, index)))
            except Misfit as misfit:
                faults += misfit.faults
                cut = cut or misfit.cut
                if len(faults) > 20:
                    break
        if faults:
            raise Misfit(faults, cut)
        return out

    def _number(self, value: Any, shape: Shape, path: Path) -> Any:
        whole = shape.kind == "integer"
        wanted = "an integer" if whole else "a number"
        number: Any = quantity_of(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            raise Misfit([Fault(path, wanted, value)])
        if whole and isinstance(number, float):
            if not number.is_integer() or abs(number) > 2**53:
                raise Misfit([Fault(path, wanted, value)])
            number = int(number)
        if isinstance(value, Text) or (type(number) is type(value)):
            return number
        return self._changed("number_format", number, path)

    def _boolean(self, value: Any, shape: Shape, path: Path) -> Any:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower() if isinstance(value, str | int) else ""
        if word not in _TRUE and word not in _FALSE:
            raise Misfit([Fault(path, "true or false", value)])
        result = word in _TRUE
        return result if isinstance(value, Text) else self._changed("boolean_word", result, path)

    def _null(self, value: Any, shape: Shape, path: Path) -> Any:
        if value is None:
            return None
        if isinstance(value, Text):
            if value in ("null", "~", "None"):
                return None
        elif isinstance(value, str) and value.strip().lower() in _NULL:
            return self._changed("null_word", None, path, 3)
        raise Misfit([Fault(path, "null", value)])

    def _enum(self, value: Any, shape: Shape, path: Path) -> Any:
        for each in shape.values:
            if type(each) is type(value) and each == value:
                return each
        if isinstance(value, str):
            word = str(value)
            if word in shape.values:
                return word
            for namespace in _NAMESPACES:
                word = word.removeprefix(namespace)
            key = fold(word)
            match = [e for e in shape.values if isinstance(e, str) and fold(e) == key and key]
            if len(match) == 1 and not set("|/,") & set(word):
                return self._changed("enum_case", match[0], path)
            number = quantity_of(word)
            if number is not MISSING and number in shape.values and number not in (True, False):
                return self._changed("number_format", number, path)
        raise Misfit([Fault(path, expectation(shape), value)])

    def _union(self, value: Any, shape: Shape, path: Path) -> Any:
        options: tuple[Shape, ...] = shape.options
        if shape.tag and isinstance(value, dict):
            chosen = shape.tags.get(str(cast("dict[str, Any]", value).get(shape.tag)))
            options = (chosen,) if chosen is not None else options
        if isinstance(value, Text):
            options = tuple(sorted(options, key=lambda each: _RANK.get(each.kind, 4)))
        best: tuple[int, Any, list[Repair]] | None = None
        rival = False
        misfits: list[Misfit] = []
        before = self.repairs
        for option in options:
            self.repairs = []
            try:
                fitted = self.fit(value, option, path)
            except Misfit as misfit:
                misfits.append(misfit)
                continue
            cost = sum(each.cost for each in self.repairs)
            if best is None or cost < best[0]:
                best, rival = (cost, fitted, self.repairs), False
            elif cost == best[0] and cost and (fitted != best[1] or type(fitted) is not type(best[1])):
                rival = True
            if cost == 0:
                break
        self.repairs = before
        if best is None or rival:
            near = min(misfits, key=lambda each: len(each.faults), default=None)
            if rival or near is None or len(options) > 2:
                near = Misfit([Fault(path, expectation(shape), value)], any(m.cut for m in misfits))
            raise near
        self.repairs.extend(best[2])
        return best[1]

    def _decoded(self, value: str, wanted: type, path: Path) -> Any:
        if value.lstrip()[:1] not in "{[" or not value.strip():
            return value
        try:
            decoded: Any = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return value
        if not isinstance(decoded, wanted):
            return value
        return self._changed("string_encoded", decoded, path, 2, content=False)

    _FITS = {
        "object": _object, "array": _array, "integer": _number, "number": _number,
        "boolean": _boolean, "null": _null, "enum": _enum, "union": _union,
    }  # fmt: skip


_ANY = Shape("any")


def plain(value: Text) -> Any:
    """The JSON scalar that a text spells, or the text itself."""
    if value in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[value]
    number = quantity_of(value) if value[:1] in "-0123456789" else MISSING
    return str(value) if number is MISSING or "," in value else number


def expectation(shape: Shape) -> str:
    """What a shape wants, in a few words for the model."""
    if shape.kind == "enum":
        return "one of " + ", ".join(json.dumps(each, default=str) for each in shape.values[:12])
    if shape.kind == "union":
        return " or ".join(dict.fromkeys(expectation(each) for each in shape.options[:4]))
    words = {"integer": "an integer", "array": "a list", "object": "an object", "any": "a value"}
    words |= {"boolean": "true or false", "null": "null"}
    return words.get(shape.kind, f"a {shape.kind}")
