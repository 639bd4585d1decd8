"""`lazy_names`: names of a package that are imported at their first use.

A program then loads only the modules whose names it uses. Knows no package.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package.

    Args:
        package: The name of the package.
        homes: The names, separated by spaces, by the module below `taofold` that defines them.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"taofold.{modules[name]}"), name)
        # The next access finds the name in the package and does not come here.
        setattr(sys.modules[package], name, value)
        return value

    return load
