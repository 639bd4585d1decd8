"""Lists values of a package that can change after creation, and their defaults."""

import dataclasses
import importlib
import inspect
import json
import os
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from tests.recorded import same

ROOT: Final = Path(__file__).parents[1]
DECISIONS: Final = ROOT / "docs" / "adr"
PAGES: Final = [
    *ROOT.glob("*.md"),
    *(page for page in (ROOT / "docs").rglob("*.md") if DECISIONS not in page.parents),
]
HOUSE: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "architecture.md", "changing.md", "mutants.md")
"""Pages for developers of the project. They name internals that users do not rely on."""


def classes(package: str) -> Iterator[type]:
    """The classes of a package, each from the module that defines it."""
    for module in modules(package):
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def modules(package: str) -> Iterator[ModuleType]:
    """The package's modules."""
    root = importlib.import_module(package)
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        yield importlib.import_module(info.name)


def changeable(package: str) -> list[str]:
    """The names of its structs and dataclasses that are not frozen."""
    names = [
        value.__name__
        for value in classes(package)
        if (issubclass(value, msgspec.Struct) and not value.__struct_config__.frozen)
        or (dataclasses.is_dataclass(value) and not value.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    ]
    return sorted(names)


def meant(package: str) -> dict[str, dict[str, Any]]:
    """Returns the defaults of the names on the user pages.

    For a value it includes the fields that can be passed by position, in order.
    """
    found: dict[str, dict[str, Any]] = {}
    pages = [page.read_text(encoding="utf-8") for page in PAGES if page.name not in HOUSE]
    code = re.findall(
        r"^```.*?^```|`[^`\n]+`|^::: .*?$", "\n".join(pages), re.DOTALL | re.MULTILINE
    )
    documented = set(re.findall(r"[\w.]+", "\n".join(code)))
    named = documented | {name.rpartition(".")[2] for name in documented}
    for kind in classes(package):
        if kind.__name__ not in named or getattr(kind, "_is_protocol", False):
            continue
        if fields := dict(_fields(kind)):
            found[kind.__qualname__] = {
                "by place": list(getattr(kind, "__match_args__", ())),
                **fields,
            }
        for name, member in vars(kind).items():
            function = getattr(member, "__func__", member)
            own = not name.startswith("_") or (name == "__init__" and not fields)
            if own and inspect.isfunction(function) and (given := _given(function)):
                found[f"{kind.__qualname__}.{name}"] = given
    for module in modules(package):
        for name, function in vars(module).items():
            path = f"{module.__name__}.{name}"
            if path in documented and inspect.isfunction(function) and (given := _given(function)):
                found[path] = given
    return found


def _given(function: Callable[..., Any]) -> dict[str, str]:
    return {
        name: _shown(parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    if issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            if field.default is not msgspec.NODEFAULT:
                yield field.name, _shown(field.default)
            elif field.default_factory is not msgspec.NODEFAULT:
                yield field.name, _shown(field.default_factory())
    elif dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            if each.default is not dataclasses.MISSING:
                yield each.name, _shown(each.default)
            elif each.default_factory is not dataclasses.MISSING:
                yield each.name, _shown(each.default_factory())
    elif issubclass(kind, tuple):
        for name, default in getattr(kind, "_field_defaults", {}).items():
            yield name, _shown(default)


def _shown(default: object) -> str:
    """Returns the repr of a default; for a dataclass, a struct or a default repr, its type."""
    if inspect.isroutine(default) or isinstance(default, type):
        return default.__qualname__
    is_value = isinstance(default, msgspec.Struct) or dataclasses.is_dataclass(default)
    return f"{type(default).__name__}()" if is_value or " at 0x" in repr(default) else repr(default)


def unlike_the_table(package: str) -> dict[str, Any]:
    """Returns the differences from `recorded/meant.json` of the package's tests.

    A newly documented name is added when the file is written again.
    """
    path = ROOT / "tests" / package.rpartition(".")[2] / "recorded" / "meant.json"
    now = meant(package)
    if os.environ.get("TAOFOLD_RECORD"):
        same(path, now)
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {name: now.get(name) for name, table in recorded.items() if now.get(name) != table}
