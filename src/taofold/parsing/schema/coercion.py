"""Fits a value to a shape by lossless, priced changes, and words a refusal.

Never drops items, and refuses values that only the end of the text closed. Text in the place of an
object or a list is read once more, as tags, JSON or an outline. The reader's limit bounds the
depth, a budget the work. Knows nothing about the text around the value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from taofold.core.json_values import ENCODED, is_array, is_object
from taofold.parsing.jsonlike.quoting import unescaped
from taofold.parsing.jsonlike.reader import JsonReader
from taofold.parsing.jsonlike.tokens import MISSING
from taofold.parsing.markup.tags import elements_in
from taofold.parsing.outcome import RAW_LIMIT, Reason, Repair, Unparsed
from taofold.parsing.outline import outline_in
from taofold.parsing.schema.reading_plan import ANY, ANYTHING, TypeShape, fold
from taofold.parsing.schema.scalars import LooseText, convert, expectation, plain

Path = tuple[str | int, ...]
_DEPTH = 110
_FAULTS = 20
_RANK = {"null": 0, "integer": 1, "number": 2, "boolean": 3, "string": 9}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One path that does not fit; `got` is `MISSING` if it has no value."""

    path: Path
    expected: str
    got: Any
    message: str = ""
    """The message of a validator, which stands in place of what was expected."""


class Misfit(Exception):
    """A value does not fit its shape; `cut` if the end of the text is the reason."""

    def __init__(self, faults: list[Mismatch], cut: bool = False) -> None:
        super().__init__()
        self.faults = faults
        self.cut = cut


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The result of fitting a value to a union. Keeps the value alive: its identity is the key."""

    value: Any
    fitted: Any = None
    repairs: tuple[Repair, ...] = ()
    misfit: Misfit | None = None


class Coercion:
    """One attempt to fit a value.

    Args:
        opened: The containers that only the end of the text closed, by identity.
        budget: The most values that are fitted.
        keeps: True to keep undeclared keys for a later check; a validator drops them.
    """

    def __init__(
        self, opened: Set[int] = frozenset(), budget: int = 1_000_000, keeps: bool = False
    ) -> None:
        self.repairs: list[Repair] = []
        self._keeps = keeps
        self._opened = opened
        self._budget = budget
        self._unions: dict[tuple[Path, int, int], _Chosen] = {}

    def fit(self, value: Any, shape: TypeShape, path: Path = ()) -> Any:
        """Returns the fitting value.

        Raises:
            Misfit: With every path that does not fit.
        """
        self._budget -= 1
        if len(path) > _DEPTH or self._budget < 0:
            raise Misfit([Mismatch(path, "a smaller value", value)])
        kind = shape.kind
        # The most common case first. `type(...) is str` excludes `LooseText`, which must lose its
        # class; a format such as a date has its own rules for null.
        if kind == "string" and type(value) is str and not shape.format:
            return value
        if kind == "object":
            return self._object(value, shape, path)
        if kind == "array":
            return self._array(value, shape, path)
        if kind == "any":
            return self._any(value, path)
        if kind == "union":
            return self._union(value, shape, path)
        converted = convert(value, shape)
        if converted.value is MISSING:
            raise Misfit([Mismatch(path, expectation(shape), value)])
        if converted.kind:
            self._note(converted.kind, path, converted.cost)
        return converted.value

    def _note(self, kind: str, path: Path, cost: int = 2, content: bool = True) -> None:
        self.repairs.append(Repair(kind, "schema", content, -1, ".".join(map(str, path)), cost))

    def _any(self, value: Any, path: Path) -> Any:
        if self._opened and id(value) in self._opened:
            raise Misfit([Mismatch(path, "the end of the value", value)], cut=True)
        if isinstance(value, LooseText):
            is_laid_out = value[:1] in ("{", "[") or value.startswith("]<]")
            decoded = self._decoded(value, path) if is_laid_out else value
            value = plain(value) if isinstance(decoded, str) else decoded
        if isinstance(value, float) and not isfinite(value):
            raise Misfit([Mismatch(path, "a finite number", value)])
        if is_object(value):
            return {key: self.fit(each, ANY, (*path, key)) for key, each in value.items()}
        if is_array(value):
            return [self.fit(each, ANY, (*path, index)) for index, each in enumerate(value)]
        return value

    def _object(self, value: Any, shape: TypeShape, path: Path) -> Any:
        if isinstance(value, str):
            value = self._decoded(value, path, "object")
        if not is_object(value):
            raise Misfit([Mismatch(path, "an object", value)])
        opened = bool(self._opened) and id(value) in self._opened
        if opened and (shape.extra is not None or not shape.fields):
            raise Misfit([Mismatch(path, "the end of the object", value)], cut=True)
        out, faults, cut = self._members(value, shape, path)
        # An object closed by the end of the text must have every declared field: otherwise
        # `{"path": "/home"` would run without the `recursive: false` that was to follow.
        needed = shape.fields.keys() if opened else shape.required
        absent = [name for name in shape.fields if name in needed and name not in value]
        if absent:
            failed = {fault.path[: len(path) + 1] for fault in faults}
            absent = [name for name in absent if name not in out and (*path, name) not in failed]
            faults += [
                Mismatch((*path, name), expectation(shape.fields[name]), MISSING) for name in absent
            ]
        # All fields are optional and none is present: any object would fit, with only defaults.
        if not out and value and shape.fields and not faults:
            faults.append(Mismatch(path, f"one of the keys {', '.join(shape.fields)}", value))
        if faults:
            raise Misfit(faults, cut or (opened and bool(absent)))
        if opened:
            self.repairs.append(Repair("missing_closer", "syntax", True, -1, "", 3))
        return out

    def _members(
        self, value: dict[str, Any], shape: TypeShape, path: Path
    ) -> tuple[dict[str, Any], list[Mismatch], bool]:
        out: dict[str, Any] = {}
        faults: list[Mismatch] = []
        cut = False
        for key, entry in value.items():
            name = key
            if key not in shape.fields:
                name = shape.folded.get(fold(key), key)
                # Two spellings of one key: neither may overwrite the other.
                if name in value or name in out:
                    name = key
            target = shape.fields.get(name) or shape.extra
            if target is None:
                if shape.closed:
                    faults.append(Mismatch((*path, key), "no such key", entry))
                    continue
                if not self._keeps:
                    continue
                target = ANY
            try:
                out[name] = self.fit(entry, target, (*path, name))
            except Misfit as misfit:
                faults += misfit.faults
                cut = cut or misfit.cut
            if name != key:
                self._note("key_case", (*path, name), 1, content=False)
        return out, faults, cut

    def _array(self, value: Any, shape: TypeShape, path: Path) -> Any:
        item = shape.item or ANY
        if isinstance(value, str):
            value = self._listed(value, path)
        if not is_array(value):
            if value is None or id(value) in self._opened:
                raise Misfit([Mismatch(path, "a list", value)], cut=value is not None)
            fitted = self.fit(value, item, (*path, 0))
            self._note("list_of_one", path, 4)
            return [fitted]
        if self._opened and id(value) in self._opened:
            raise Misfit([Mismatch(path, "the end of the list", value)], cut=True)
        out: list[Any] = []
        faults: list[Mismatch] = []
        cut = False
        for index, entry in enumerate(value):
            target = shape.prefix[index] if index < len(shape.prefix) else item
            try:
                out.append(self.fit(entry, target, (*path, index)))
            except Misfit as misfit:
                faults += misfit.faults
                cut = cut or misfit.cut
                # A list may have thousands of wrong items; the message for the model names only a
                # few.
                if len(faults) > _FAULTS:
                    break
        if faults:
            raise Misfit(faults, cut)
        return out

    def _listed(self, value: str, path: Path) -> Any:
        """Reads text in the place of a list: an encoded list, or one unambiguous item."""
        decoded = self._decoded(value, path, "array")
        if is_array(decoded):
            return decoded
        if isinstance(value, LooseText) and not value.strip():
            return []
        # `a, b` may be one item or two; the text does not decide it.
        if any(each in value for each in ",;\n") or not value.strip():
            raise Misfit([Mismatch(path, "a list", value)])
        return value

    def _union(self, value: Any, shape: TypeShape, path: Path) -> Any:
        # Nested unions reach the same value repeatedly: without the cache, 3 options nested 14 deep
        # would be 3**14 attempts.
        key = (path, id(value), id(shape))
        known = self._unions.get(key)
        if known is None:
            before, self.repairs = self.repairs, []
            try:
                known = _Chosen(value, self._choice(value, shape, path), tuple(self.repairs))
            except Misfit as misfit:
                known = _Chosen(value, misfit=misfit)
            finally:
                self.repairs = before
            self._unions[key] = known
        if known.misfit is not None:
            raise Misfit(known.misfit.faults, known.misfit.cut)
        self.repairs.extend(known.repairs)
        return known.fitted

    def _choice(self, value: Any, shape: TypeShape, path: Path) -> Any:
        options: tuple[TypeShape, ...] = shape.options
        if shape.tag and is_object(value):
            chosen = shape.tags.get(str(value.get(shape.tag)))
            options = (chosen,) if chosen is not None else options
        if isinstance(value, LooseText):
            # Any value fits a string: if all values are text, the narrower types are tried first.
            options = tuple(sorted(options, key=lambda each: _RANK.get(each.kind, 4)))
        best: tuple[int, Any, list[Repair]] | None = None
        rival = False
        misfits: list[Misfit] = []
        before = self.repairs
        for option in options:
            # Each option has its own repairs; those of the losing options are dropped.
            self.repairs = []
            try:
                fitted = self.fit(value, option, path)
            except Misfit as misfit:
                misfits.append(misfit)
                continue
            cost = sum(each.cost for each in self.repairs)
            if best is None or cost < best[0]:
                best, rival = (cost, fitted, self.repairs), False
            elif cost == best[0]:
                # Two options at one price with different values: neither is taken.
                rival = rival or fitted != best[1] or type(fitted) is not type(best[1])
            # The declared order decides between options that fit without a repair.
            if cost == 0:
                break
        self.repairs = before
        if best is None or rival:
            raise _nearest(misfits, shape, value, path, rival)
        self.repairs.extend(best[2])
        return best[1]

    def _decoded(self, value: str, path: Path, wants: str = "any") -> Any:
        if isinstance(value, LooseText):
            inner, repairs = _laid_out(value, wants)
            if inner is not None:
                # Notation is free where every value is text, but a guess is still a guess.
                where = ".".join(map(str, path))
                self.repairs += [replace(each, path=where) for each in repairs if each.content]
                return inner
        if value.lstrip()[:1] not in ("{", "["):
            return value
        try:
            decoded: Any = ENCODED.decode(value)
        except (ValueError, RecursionError):
            return value
        self._note("string_encoded", path, content=False)
        return decoded


def _laid_out(value: LooseText, wants: str) -> tuple[Any, list[Repair]]:
    """Reads text as tags, as JSON or similar, or as an outline; `None` for plain text."""
    body = value.strip()
    if body[:1] in ("<", "]") and body[-1:] == ">":
        return elements_in(body, wants), []
    if body[:1] in ("{", "["):
        body = unescaped(body) or body
        reading = JsonReader(body, ANYTHING).read(0)
        is_all = reading.whole and reading.end == len(body)
        return (reading.value if is_all else None), reading.repairs
    outline = outline_in(value)
    return (None if outline is None else outline[0]), []


def _nearest(
    misfits: list[Misfit], shape: TypeShape, value: Any, path: Path, rival: bool
) -> Misfit:
    near = min(misfits, key=lambda each: len(each.faults), default=None)
    few = 2  # an optional value has one real alternative, which the message names
    if near is None or rival or len(shape.options) > few:
        cut = any(each.cut for each in misfits)
        return Misfit([Mismatch(path, expectation(shape), value)], cut)
    return near


_ECHO = 60
_FAULTS_TOLD = 5
_WORDS: dict[Reason, str] = {
    "empty": "The reply is empty. Send the answer as one JSON value.",
    "incomplete": "The reply was cut off before it was complete. Send it again, shorter.",
    "ambiguous": "The reply holds several different answers. Send exactly one.",
    "no_candidate": "No answer was found. Send one JSON value and nothing else.",
    "too_large": "The reply is too large or too deeply nested. Send a smaller one.",
    "invalid": "The answer does not fit.",
}


def refusal(reason: Reason, text: str, faults: Sequence[Mismatch] = (), note: str = "") -> Unparsed:
    """Builds a refusal; `faults` name the failing paths, `note` replaces the standard text."""
    if faults:
        parts = [_sentence(fault) for fault in faults[:_FAULTS_TOLD]]
        if len(faults) > _FAULTS_TOLD:
            parts.append(f"and {len(faults) - _FAULTS_TOLD} more")
        return Unparsed(reason, "Correct only this: " + "; ".join(parts), text[:RAW_LIMIT])
    return Unparsed(reason, note or _WORDS[reason], text[:RAW_LIMIT])


def _sentence(fault: Mismatch) -> str:
    path = ".".join(map(str, fault.path)) or "the value"
    if fault.got is MISSING:
        return f"{path} is missing ({fault.expected})"
    if fault.message:
        return f"{path}: {fault.message}"
    return f"{path}: expected {fault.expected}, got {echo(fault.got)}"


def echo(value: object) -> str:
    """Returns a value as the model wrote it, at most 60 characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        value = value[: _ECHO + 1]
    try:
        excerpt = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        excerpt = type(value).__name__
    return excerpt if len(excerpt) <= _ECHO else excerpt[:_ECHO] + "…"
