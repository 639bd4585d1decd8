"""Git as a content-addressed store outside the work root, and as the project's own history.

Every call has a clean environment: neither the person's configuration nor hooks, filters and
attributes that lie in the tree change what is stored or run anything.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Final

from taofold.core.errors import ConfigError, RunError

SECONDS: Final = 300
MADE_AGAIN: Final = (
    *(".taofold/", "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/"),
    *(".venv/", "node_modules/", ".hypothesis/", ".tox/", ".nox/", ".coverage", "target/debug/"),
    *("target/release/", ".DS_Store"),
)
"""Caches and installed packages: never kept, and no loss."""
_PLAIN: Final = "* -text -eol -filter -ident -working-tree-encoding\n"
_AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "taofold", "GIT_AUTHOR_EMAIL": "taofold@localhost",
    "GIT_COMMITTER_NAME": "taofold", "GIT_COMMITTER_EMAIL": "taofold@localhost",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Git:
    """One repository with one work tree and, if given, an index of its own."""

    store: Path
    tree: Path
    index: Path | None = None
    own: bool = True
    """Is it ours, outside the work root? Else it is the project's."""

    def run(
        self,
        *words: str,
        given: bytes = b"",
        more: Mapping[str, str] | None = None,
        codes: Sequence[int] = (0,),
    ) -> bytes:
        """Standard output of `git words`.

        Raises:
            RunError: git failed; the message is git's.
        """
        flags = ["--literal-pathspecs", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor="]
        flags += ["-c", "gc.auto=0", "-c", "core.quotePath=false", "-c", "safe.directory=*"]
        if self.own:
            flags += ["-c", "core.autocrlf=false", "-c", "core.symlinks=true"]
            flags += ["-c", "core.preloadIndex=true", "-c", "core.untrackedCache=false"]
        try:
            done = subprocess.run(
                ["git", *flags, *words], cwd=self.tree, env=self._environment(more or {}),
                input=given, capture_output=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"git {words[0]} failed: {error}") from error
        if done.returncode not in codes:
            said = done.stderr.decode("utf-8", "replace").strip()[-800:]
            raise RunError(f"git {words[0]} failed: {said}")
        return done.stdout

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        kept |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        kept |= {"GIT_DIR": str(self.store), "GIT_WORK_TREE": str(self.tree)}
        if self.own:
            kept |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **_AUTHOR}
        if self.index is not None:
            kept["GIT_INDEX_FILE"] = str(self.index)
        return {**kept, **more}

    def text(self, *words: str) -> str:
        """The same as one line of text."""
        return self.run(*words).decode("utf-8", "surrogateescape").strip()

    def names(self, *words: str, given: bytes = b"") -> tuple[str, ...]:
        """Output that is separated by NUL."""
        raw = self.run(*words, given=given)
        return tuple([os.fsdecode(part) for part in raw.split(b"\0") if part])


def shadow(folder: Path, root: Path) -> Git:
    """A store of our own in `folder` for the tree at `root`, made if need be.

    Raises:
        ConfigError: there is no git.
    """
    if which("git") is None:
        raise ConfigError("a loop keeps snapshots with git, and git is not installed")
    store = folder / "snapshots.git"
    git = Git(store, root, store / "index")
    if not (store / "HEAD").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git.run("init", "--quiet", "--template=", str(root))
    (store / "info").mkdir(exist_ok=True)
    (store / "info" / "exclude").write_text("\n".join(MADE_AGAIN) + "\n", encoding="utf-8")
    (store / "info" / "attributes").write_text(_PLAIN, encoding="utf-8")
    return git


def repository(root: Path) -> Git | None:
    """The project's own repository around `root`; None if there is none."""
    if which("git") is None:
        return None
    flags = ["git", "-C", str(root), "-c", "safe.directory=*"]
    names = ("PATH", "HOME")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    done = subprocess.run(
        [*flags, "rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel"],
        capture_output=True, env=environment, timeout=SECONDS, check=False,
    )  # fmt: skip
    lines = os.fsdecode(done.stdout).splitlines()
    if done.returncode or len(lines) != 2:
        return None
    return Git(Path(lines[0]), Path(lines[1]), own=False)


def nul(paths: Iterable[str]) -> bytes:
    """Paths as git reads them from standard input."""
    return b"".join([os.fsencode(path) + b"\0" for path in paths])
