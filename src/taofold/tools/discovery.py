"""Tools from files in folders, found by name.

`discover` searches files named `tagent.tools.py` and `taofold_tools.py`. **It executes the files it
finds**, so pass only code that you would run. It loads nothing unless a path is given, and never
prints. Errors are in `Discovery.faults`.
"""

import inspect
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final, cast

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.foreign_code import contained, original
from taofold.tools.tool import Tool, as_tool
from taofold.tools.toolset import Toolset

FILES: Final = ("tagent.tools.py", "taofold_tools.py")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class DiscoveryWarning(UserWarning):
    """A file or function that yields no tool, or a tool that another one hides."""


@dataclass(frozen=True, slots=True)
class DiscoveryFault:
    """The reason why a file, or its function `name`, yields no tool."""

    path: Path
    reason: str
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: {self.name}" if self.name else str(self.path)
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Discovery:
    """The tools found, the faults, and the tools that were skipped."""

    tools: Toolset = field(default_factory=Toolset)
    faults: tuple[DiscoveryFault, ...] = ()
    warnings: tuple[str, ...] = ()


def discover(
    paths: str | Path | Iterable[str | Path], *, recursive: bool = True, trusted: bool = False
) -> Discovery:
    """Returns the tools in `paths`. **Runs the code** of each file found.

    Takes `Tool` and `Toolset` objects, and plain functions whose first two parameters are `state,
    args`. Files are loaded in sorted order. The first definition of a name wins, with a warning.

    Args:
        paths: Directories to search, or Python files of any name. Hidden directories, virtual
            environments and `node_modules` are skipped.
        recursive: Searches subdirectories.
        trusted: Keeps declared tiers. Otherwise all tools have at least tier 2 (D8).
    """
    faults: list[DiscoveryFault] = []
    hidden: list[str] = []
    taken: dict[str, tuple[Tool, Path]] = {}
    sources = [paths] if isinstance(paths, (str, Path)) else list(paths)
    for path in _files(sources, recursive, faults):
        module = _load(path, faults)
        if module is None:
            continue
        for tool in _tools_of(module, path, faults):
            if tool.name in taken:
                first = taken[tool.name][1]
                hidden.append(f"tool {tool.name!r} of {path} is ignored: {first} defines it too")
                continue
            # A file in a folder can declare any tier, so its tools need at least a card.
            tier = max(tool.tier, Tier.CARD)
            governed = tool if trusted else replace(tool, tier=tier, delegated=False)
            taken[tool.name] = (governed, path)
    tools = Toolset(tool for tool, _ in taken.values())
    return Discovery(tools, tuple(faults), tuple(hidden))


def discover_toolset(
    paths: str | Path | Iterable[str | Path], *, recursive: bool = True
) -> Toolset:
    """Returns the tools of `discover`, with a `DiscoveryWarning` for each fault."""
    discovery = discover(paths, recursive=recursive)
    for problem in (*map(str, discovery.faults), *discovery.warnings):
        warnings.warn(problem, DiscoveryWarning, stacklevel=2)
    return discovery.tools


def _files(
    paths: Iterable[str | Path], recursive: bool, faults: list[DiscoveryFault]
) -> list[Path]:
    files: set[Path] = set()
    for source in paths:
        path = Path(source)
        if path.is_dir():
            files.update(file.resolve() for file in _within(path, recursive))
        elif path.is_file():
            files.add(path.resolve())
        else:
            faults.append(DiscoveryFault(path, "there is no such file or directory"))
    # Sorted by path, so that the same folder gives the same tools on every machine.
    return sorted(files)


def _within(root: Path, recursive: bool) -> Iterator[Path]:
    for here, folders, files in os.walk(root):
        folder = Path(here)
        # In place, because os.walk continues with the entries left in this list.
        folders[:] = [
            name
            for name in folders
            if recursive
            and not name.startswith(".")
            and name not in _SKIPPED
            and not (folder / name / "pyvenv.cfg").exists()
        ]
        # `is_file` skips FIFOs, whose import would block forever.
        yield from (folder / name for name in files if name in FILES and (folder / name).is_file())


def _load(path: Path, faults: list[DiscoveryFault]) -> ModuleType | None:
    # Named by the path's digest: two files of one name in two folders are two modules.
    name = f"taofold_discovered_{blake2b(os.fsencode(path), digest_size=6).hexdigest()}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        faults.append(DiscoveryFault(path, "it is not a Python file"))
        return None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look their module up there
    try:
        with (
            contained(),
            redirect_stdout(sys.stderr),
        ):  # a file that prints must not corrupt machine output
            spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - other files still load
        del sys.modules[name]
        cause = original(error)
        faults.append(DiscoveryFault(path, f"importing it raised {type(cause).__name__}: {cause}"))
        return None
    return module


def _tools_of(module: ModuleType, path: Path, faults: list[DiscoveryFault]) -> Iterator[Tool]:
    for name, thing in list(vars(module).items()):
        if name.startswith("_"):
            continue
        if isinstance(thing, Tool):
            yield cast("Tool", thing)
        elif isinstance(thing, Toolset):
            yield from thing.values()
        # Skips functions that the file only imported.
        elif isinstance(thing, FunctionType) and thing.__module__ == module.__name__:
            tool = _bare(thing, name, path, faults)
            if tool is not None:
                yield tool


def _bare(
    function: FunctionType, name: str, path: Path, faults: list[DiscoveryFault]
) -> Tool | None:
    names = list(inspect.signature(function).parameters)
    if names[:2] != ["state", "args"]:
        signature = f"({', '.join(names)})"
        reason = f"its parameters are {signature}, not (state, args); decorate it with @tool, or "
        faults.append(
            DiscoveryFault(path, reason + "start its name with '_' if it is no tool", name)
        )
        return None
    try:
        return as_tool(function)
    except ConfigError as error:
        faults.append(DiscoveryFault(path, str(error), name))
        return None
