"""Which values of a package can be changed after they were made."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

import msgspec


def classes(package: str) -> Iterator[type]:
    """The classes of a package, each from the module that defines it."""
    root = importlib.import_module(package)
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and value.__module__ == info.name:
                yield value


def changeable(package: str) -> list[str]:
    """The names of its structs and dataclasses that are not frozen."""
    names = [
        value.__name__
        for value in classes(package)
        if (issubclass(value, msgspec.Struct) and not value.__struct_config__.frozen)
        or (dataclasses.is_dataclass(value) and not value.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    ]
    return sorted(names)
