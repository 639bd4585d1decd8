"""Converts a provider's JSON to the fields that a reader uses, and drops invalid fields.

`fitted` converts a decoded value to a type. A field that does not fit keeps its default, an entry
of a list that does not fit is dropped, and counts may be floats or texts. `spelling_of` and
`arguments_text` read values where the formats have a text. `error_report` finds an error in an
answer with status 200, in any form that servers use. Pure and independent of providers' formats.
"""

import math
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from taofold.core.json_values import is_array, is_object

_LONGEST_NUMBER: Final = 40
"""Maximum characters of a text that is read as a number."""


class Unfit(Exception):
    """The value does not fit the type."""


def fitted(value: Any, kind: Any) -> Any:
    """Returns `value` as `kind`, without the fields and entries that do not fit.

    Raises:
        Unfit: The value itself does not fit.
    """
    if kind is Any:
        return value
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(value, kind)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _option(value, get_args(kind))
    if origin is list:
        return _entries(value, get_args(kind)[0])
    if kind is dict or origin is dict:
        if is_object(value):
            return value
        raise Unfit
    return _scalar(value, kind)


def _struct(value: Any, kind: type[msgspec.Struct]) -> msgspec.Struct:
    if not is_object(value):
        raise Unfit
    fields: dict[str, Any] = {}
    for name, encoded, type_ in _fields(kind):
        if encoded in value:
            try:
                fields[name] = fitted(value[encoded], type_)
            except Unfit:
                continue
    return kind(**fields)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    return tuple(
        [(each.name, each.encode_name, each.type) for each in msgspec.structs.fields(kind)]
    )


def _option(value: Any, options: tuple[Any, ...]) -> Any:
    if value is None and NoneType in options:
        return None
    for option in options:
        if option is NoneType:
            continue
        try:
            return fitted(value, option)
        except Unfit:
            continue
    raise Unfit


def _entries(value: Any, kind: Any) -> list[Any]:
    # Some servers send a single entry without its list.
    if is_object(value):
        value = [value]
    if not is_array(value):
        raise Unfit
    entries: list[Any] = []
    for entry in value:
        try:
            entries.append(fitted(entry, kind))
        except Unfit:
            continue
    return entries


def _scalar(value: Any, kind: Any) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise Unfit
    # `true` is neither a count nor a name.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Unfit
    if kind is str:
        return spelling_of(value)
    number = _number(value)
    return int(number) if kind is int else float(number)


def _number(value: str | float) -> int | float:
    """Returns the number that a value is or spells."""
    if isinstance(value, str):
        if len(value) > _LONGEST_NUMBER:
            raise Unfit
        try:
            value = float(value)
        except ValueError:
            raise Unfit from None
    if isinstance(value, float) and not math.isfinite(value):
        raise Unfit
    return value


def spelling_of(value: Any) -> str:
    """Returns a value as text. Numbers and bools are spelled as JSON, other values become "".

    Servers that parse each piece of a text send `6` for "6".
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    return ""


def arguments_text(value: Any) -> str:
    """Returns a call's arguments as JSON text. Some servers send a text, others a value."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_MARKS: Final = ("object", "type", "event", "status")
"""Keys whose value is "error" in an object that reports one."""
_CODES: Final = ("code", "status_code", "statusCode", "status", "error_code", "errorCode")
_WORDS: Final = (
    *("message", "detail", "details", "msg", "error_msg", "error_message", "errorMessage"),
    *("error_description", "description", "reason", "title"),
)


def error_report(value: Any) -> Any:
    """Returns the error that a decoded answer or event reports, or None."""
    if not is_object(value):
        return None
    error = value.get("error")
    if error:
        # With `"error": true` and a bare code the message is in a neighbouring field.
        return error if is_object(error) or isinstance(error, str) else value
    if any([value.get(mark) == "error" for mark in _MARKS]):
        return value
    errors = value.get("errors")
    if is_array(errors) and errors:
        return errors[0]
    if error_status(value) and error_words(value):
        return value
    return None


def error_status(report: dict[str, Any]) -> int:
    """Returns the HTTP status that a report has as its code, or 0."""
    for name in _CODES:
        code = report.get(name)
        if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
            code = int(code)
        if isinstance(code, int | float) and 400 <= code < 600:
            return int(code)
    return 0


def error_code(report: dict[str, Any]) -> str:
    """Returns the error code of a report, or ""."""
    for name in (*_CODES, "type"):
        code = report.get(name)
        # "error" alone is no code.
        if code and isinstance(code, str) and code != "error" and not code.isdigit():
            return code
    code = report.get("code")
    return spelling_of(code) if code else ""


def spoken_words(report: dict[str, Any]) -> str:
    """Returns the message of an object that may report an error, or "".

    An object below a key of `_WORDS` belongs to the format, such as the message of a reply.
    """
    return error_words({name: value for name, value in report.items() if not is_object(value)})


def error_words(report: dict[str, Any]) -> str:
    """Returns the readable message of a report."""
    words: list[str] = []
    for name in _WORDS:
        value = report.get(name)
        if is_object(value) and (inner := error_words(value)):
            value = inner
        elif is_object(value) or is_array(value):
            value = msgspec.json.encode(value).decode() if value else ""
        if value and (text := spelling_of(value)) not in words:
            words.append(text)
    return ": ".join(words)
