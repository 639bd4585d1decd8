"""Writes the generated tables of the documentation: `python -m tests.tables`.

An event's row comes from its class, a tool option's row from the `Args:` of `Tool`.
"""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

import docstring_parser
import msgspec

from taofold.core.values import Value
from taofold.files.config import PROJECT_KEYS
from taofold.tools.tool import Tool, ToolOptions
from tests.conformance_kit import EVENTS, VALUES, tag_of

DOCS: Final = Path(__file__).parents[1] / "docs"


def event_table() -> str:
    """The events as the page lists them."""
    lines = ["| event | fields | effect on the state |", "|---|---|---|"]
    for kind in EVENTS:
        state = re.search(r"State: (.*)", inspect.getdoc(kind) or "", re.DOTALL)
        effect = " ".join(state[1].split()) if state else "none"
        lines.append(f"| `{tag_of(kind)}` | {_fields_of(kind)} | {effect} |")
    return "\n".join(lines) + "\n"


def value_table() -> str:
    """The values in events as the page lists them."""
    rows = [f"| **{name}** | {_fields_of(kind)} |" for name, kind in VALUES.items()]
    return "\n".join(["| value | fields |", "|---|---|", *rows]) + "\n"


def _fields_of(kind: type[Value]) -> str:
    base = EVENTS[EVENTS.index(kind.__base__)] if kind.__base__ in EVENTS else None
    own = [
        f"`{field.name}`{_default(field)}"
        for field in msgspec.structs.fields(kind)
        if field.name != "elapsed" and (base is None or field.name not in base.__struct_fields__)
    ]
    return ", ".join([f"as `{tag_of(base)}`", *own] if base is not None else own)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return " {}"
    if field.default is msgspec.NODEFAULT:
        return ""
    written = json.dumps(msgspec.to_builtins(field.default))
    # Null is unknown, which no default shows.
    unknown = field.default is not None and type(None) in get_args(field.type)
    return f" {written}{' or null' * unknown}"


def option_table() -> str:
    """Returns the table of tool options, from the `Args:` of `Tool`."""
    arguments = {
        argument.arg_name: argument.description or ""
        for argument in docstring_parser.parse(inspect.getdoc(Tool) or "").params
    }
    lines = ["| option | meaning |", "|---|---|"]
    for name, text in arguments.items():
        if name in ToolOptions.__optional_keys__:
            default = Tool.__dataclass_fields__[name].default
            value = "…" if default is None else repr(default).replace("'", '"')
            lines.append(f"| `{name}={value}` | {' '.join(text.split())} |")
    return "\n".join(lines) + "\n"


def project_key_table() -> str:
    """The keys that the configuration of a project may set."""
    rows = [f"| `{key}` | {text} |" for key, text in PROJECT_KEYS.items()]
    return "\n".join(["| a project may set | meaning |", "|---|---|", *rows]) + "\n"


TABLES: Final[dict[str, dict[str, Callable[[], str]]]] = {
    "log-format.md": {"| event | fields |": event_table, "| value | fields |": value_table},
    "security.md": {"| a project may set | meaning |": project_key_table},
    "tools.md": {"| option | meaning |": option_table},
}
"""By page: the first line of its tables, and their generator."""


def page_with_tables(name: str) -> str:
    """The page as it should be."""
    page = (DOCS / name).read_text(encoding="utf-8")
    for head, table in TABLES[name].items():
        old = re.compile(rf"{re.escape(head)}.*?\n\n", re.DOTALL)
        page = old.sub(lambda _, table=table: table() + "\n", page)
    return page


if __name__ == "__main__":
    for page in TABLES:
        (DOCS / page).write_text(page_with_tables(page), encoding="utf-8")
