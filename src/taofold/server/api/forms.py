"""Checks answers to tools' forms; a fault is a 422 response with its path."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from taofold.server.endpoint import Problem, faulty
from taofold.tools.forms import form_faults, form_fields, form_values, plain_faults, wanted
from taofold.tools.schema_check import SchemaFault


def answer(form: Mapping[str, Any], text: str) -> str:
    """Returns the answer for the tool: `text`, or JSON if the form has fields.

    Raises:
        Problem: 422 with the path of each fault.
    """
    if not form_fields(form):
        _refuse(plain_faults(form, text), "answer")
        return text
    values = form_values(form, text)
    if values is None:
        raise Problem(422, "invalid", f"answer: {wanted(form)}")
    check(form, values, "answer")
    return msgspec.json.encode(values).decode()


def check(form: Mapping[str, Any], filled: Mapping[str, Any], where: str) -> None:
    """Checks that `filled` matches the form.

    Raises:
        Problem: 422 with the path of each fault, under `where`.
    """
    if form_fields(form):
        _refuse(form_faults(form, filled), where)


def _refuse(faults: Sequence[SchemaFault], where: str) -> None:
    if faults:
        paths = ["/".join(map(str, (where, *fault.path))) for fault in faults]
        texts = [fault.sentence for fault in faults]
        named = [f"{where}: {texts[0]}", *texts[1:]]
        raise faulty("body", list(zip(paths, texts, strict=True)), named)
