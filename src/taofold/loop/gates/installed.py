"""Python packages that gates use from outside the work root, and their changes.

A gate's results are compared with those of the start. A package that the user or another program
installs, upgrades or removes in between changes them without the agent's involvement. Only the
names of `*.dist-info`, `*.egg-info` and `*.pth` are read, in folders that the interpreters named
before an agent worked. Nothing is imported, and no folder that an agent can write to is read.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from taofold.core.json_values import decoded, is_object
from taofold.parsing.untrusted_text import one_line

_SITES = ("lib/python*/site-packages", "Lib/site-packages")


def installed(folders: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Returns the packages in each folder: names, with their versions."""
    return {str(folder): _packages(folder) for folder in sorted(folders)}


def package_changes(was: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Returns the changes in these folders since, one line per package."""
    return tuple(
        [
            line
            for folder, before in was.items()
            for line in _differences(before, _packages(Path(folder)), folder)
        ]
    )


def unseen_changes(environment: Path, kept: Path, name: str) -> tuple[str, ...]:
    """Returns how the packages of an environment differ from the copy that gates use.

    Args:
        environment: Its current folder.
        kept: The copy of the start.
        name: The name of the environment in the lines.
    """
    if not kept.is_dir():
        return ()
    return tuple(_differences(_of_environment(kept), _of_environment(environment), name))


def editable(root: Path) -> list[str]:
    """Returns the packages that environments directly in `root` import from `root` itself."""
    found: set[str] = set()
    for folder in [folder for glob in _SITES for folder in root.glob(f"*/{glob}")]:
        # Installers record the source of a package: PEP 610.
        for distribution in distributions(path=[str(folder)]):
            noted = _object(distribution.read_text("direct_url.json"))
            source = Path(url2pathname(urlsplit(str(noted.get("url", ""))).path))
            info: Any = noted.get("dir_info")
            if is_object(info) and info.get("editable") and source.resolve().is_relative_to(root):
                found.add(one_line(distribution.name, 100))
    return sorted(found)


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = decoded(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if is_object(value) else {}


def _of_environment(environment: Path) -> dict[str, str]:
    folders = [folder for glob in _SITES for folder in environment.glob(glob)]
    return {name: at for folder in folders for name, at in _packages(folder).items()}


def _packages(folder: Path) -> dict[str, str]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return {}
    packages: dict[str, str] = {}
    for name in sorted(names):
        stem, dot, ending = name.rpartition(".")
        if ending in ("dist-info", "egg-info"):
            package, _, version = stem.partition("-")
            packages[package] = version
        elif dot and ending == "pth":
            packages[name] = ""
    return packages


def _differences(was: Mapping[str, str], now: Mapping[str, str], where: str) -> list[str]:
    lines: list[str] = []
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) == now.get(name):
            continue
        if name not in was:
            did = f"{name} {now[name]}".rstrip() + " was installed"
        elif name not in now:
            did = f"{name} {was[name]}".rstrip() + " was removed"
        else:
            did = f"{name} {was[name]} was replaced by {now[name]}"
        lines.append(one_line(f"{did} in {where}", 300))
    return lines
