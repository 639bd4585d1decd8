"""The states of a work root, kept by content in a git store outside of it.

`Snapshots` takes them, compares and restores them. What the project ignores is left alone: it is
neither kept nor removed. Links are kept as links and never followed. A snapshot costs as much as
what changed since the last one.

`Git` runs git, for the snapshots and for the project's own history. Nothing that lies in the tree
is obeyed. Snapshots have a store, an index, a configuration and attributes of their own. The
project's repository is found once, before an agent has worked, and asked only for what runs
nothing: its configuration may name programs (filters, monitors, hooks), so each of them is
overridden by name, and what is written to it is made with plumbing.
"""

import os
import stat
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taofold import trusted_code
from taofold.core.errors import ConfigError, Refused, RunError
from taofold.core.text import excerpt
from taofold.core.values import Value
from taofold.tools.jail import Jail

SECONDS: Final = 300
MADE_AGAIN: Final = (
    *(".taofold/", "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/"),
    *(".venv/", "node_modules/", ".hypothesis/", ".tox/", ".nox/", ".coverage", "target/debug/"),
    *("target/release/", ".DS_Store"),
)
"""Caches and installed packages: never kept, and no loss."""
PLAIN: Final = "* -text -eol -filter -ident -working-tree-encoding\n"
_HARMLESS: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*"),
    *("-c", "safe.bareRepository=explicit", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.pager=cat", "-c", "core.editor=true", "-c", "core.sshCommand=false"),
    *("-c", "submodule.recurse=false", "-c", "protocol.allow=never", "-c", "gpg.program=false"),
)
"""Nothing that git would run by its configuration, wherever that lies."""
_AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "taofold",
    "GIT_AUTHOR_EMAIL": "taofold@localhost",
    "GIT_COMMITTER_NAME": "taofold",
    "GIT_COMMITTER_EMAIL": "taofold@localhost",
}


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
        stdin: bytes = b"",
        more: Mapping[str, str] | None = None,
        codes: Sequence[int] = (0,),
    ) -> bytes:
        """Standard output of `git words`.

        Raises:
            RunError: git failed; the message is git's.
        """
        git = trusted_code.program("git", self.tree)
        if not git:
            raise RunError("git is not installed, or lies only where an agent works")
        # `--literal-pathspecs`: a file may be called `:(exclude)*`.
        flags = ["--literal-pathspecs", *_HARMLESS, "-c", "gc.auto=0", "-c", "core.quotePath=false"]
        # Our store keeps contents as they are; the project's own settings hold for its repository.
        if self.own:
            flags += ["-c", "core.autocrlf=false", "-c", "core.symlinks=true"]
            flags += ["-c", "core.preloadIndex=true", "-c", "core.untrackedCache=false"]
        try:
            done = subprocess.run(
                [git, *flags, *words],
                cwd=self.tree,
                env=self._environment(more or {}),
                input=stdin,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"git {words[0]} failed: {error}") from error
        if done.returncode not in codes:
            message = done.stderr.decode("utf-8", "replace").strip()[-800:]
            raise RunError(f"git {words[0]} failed: {message}")
        return done.stdout

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        variables = {
            name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ
        }
        variables |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        variables |= {"GIT_ATTR_NOSYSTEM": "1", "GIT_PAGER": "cat", "GIT_EDITOR": "true"}
        variables |= {"GIT_DIR": str(self.store), "GIT_WORK_TREE": str(self.tree)}
        if self.own:
            variables |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **_AUTHOR}
        else:
            variables |= _overridden(self.filters())
        if self.index is not None:
            variables["GIT_INDEX_FILE"] = str(self.index)
        return {**variables, **more}

    def filters(self) -> tuple[str, ...]:
        """Settings of the project's configuration that name programs to filter files with."""
        git = trusted_code.program("git", self.tree)
        variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(
            [git, *_HARMLESS, "config", "--list", "--name-only", "-z"],
            cwd=self.tree,
            env={**variables, "GIT_DIR": str(self.store)},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        keys = os.fsdecode(done.stdout).split("\0")
        return tuple(dict.fromkeys([key for key in keys if key.startswith("filter.")]))

    def text(self, *words: str) -> str:
        """The same as one line of text."""
        return self.run(*words).decode("utf-8", "surrogateescape").strip()

    def names(self, *words: str, stdin: bytes = b"") -> tuple[str, ...]:
        """Output that is separated by NUL."""
        raw = self.run(*words, stdin=stdin)
        return tuple([os.fsdecode(part) for part in raw.split(b"\0") if part])

    def committed(
        self,
        root: Path,
        index: Path,
        branch: str,
        title: str,
        body: str,
        changed: Collection[str] = (),
    ) -> str:
        """Commit the files below `root` on `branch`, after its last commit or the current one.

        No filter is run. A file that the project filters (large files, secrets) stays as it was
        committed unless it is one of `changed`, relative to `root`; then it is committed as it is.

        Returns:
            The commit; "" if nothing changed since.

        Raises:
            Refused: the branch is checked out, or its name is none.
            RunError: git failed.
        """
        git = Git(self.store, self.tree, index, own=False)
        reference = git.usable(branch)
        parent = git._commit(reference) or git._commit("HEAD")
        # An index left by a process that died would bring its entries into the commit.
        index.unlink(missing_ok=True)
        git.run("read-tree", parent or "--empty")
        git.run("add", "--all", "--", str(root))
        git._unfiltered(
            parent, {(root / path).relative_to(git.tree).as_posix() for path in changed}
        )
        tree = git.text("write-tree")
        if parent and git.text("rev-parse", f"{parent}^{{tree}}") == tree:
            return ""
        text = f"{title}\n\n{body}".strip() + "\n"
        above = ["-p", parent] if parent else []
        raw = git.run("commit-tree", tree, *above, stdin=text.encode(), more=git._author())
        commit = os.fsdecode(raw).strip()
        # With the old value: whoever moved the branch meanwhile is not overwritten.
        git.run("update-ref", "-m", title, reference, commit, git._commit(reference) or "0" * 40)
        return commit

    def _unfiltered(self, parent: str, changed: Collection[str]) -> None:
        """Have the parent's entries for files that a filter would make smaller or other."""
        if not parent:
            return
        names = self.names("diff-index", "--cached", "-z", "--name-only", "--no-renames", parent)
        attributes = self.names("check-attr", "-z", "--stdin", "filter", stdin=nul(names))
        filtered = [
            path
            for path, value in zip(attributes[::3], attributes[2::3], strict=True)
            if value not in ("unspecified", "unset") and path not in changed
        ]
        if filtered:
            entries = self.run("ls-tree", "-z", "-r", parent, "--", *filtered)
            self.run("update-index", "-z", "--index-info", stdin=entries)

    def usable(self, branch: str) -> str:
        """The reference of a branch that may be committed to beside the person's own work.

        Raises:
            Refused: the branch is checked out, or its name is none.
        """
        reference = f"refs/heads/{branch}"
        try:
            self.run("check-ref-format", reference)
        except RunError:
            raise Refused(f"{branch!r} is no name for a branch") from None
        if any([f"branch {reference}" == line for line in self._worktrees()]):
            raise Refused(f"the branch {branch!r} is checked out; commit to another one")
        return reference

    def _commit(self, name: str) -> str:
        try:
            return self.text("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except RunError:
            return ""

    def _worktrees(self) -> list[str]:
        return self.text("worktree", "list", "--porcelain").splitlines()

    def _author(self) -> dict[str, str]:
        """The person's name, if git knows one; else ours."""
        try:
            self.run("var", "GIT_COMMITTER_IDENT")
        except RunError:
            name = {"NAME": "taofold", "EMAIL": "taofold@localhost"}
            return {f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in name.items()}
        return {}


def _overridden(keys: Iterable[str]) -> dict[str, str]:
    """Variables with which git runs none of these filters."""
    # Configuration from the environment wins over every file, so no file has to be trusted.
    variables = {"GIT_CONFIG_COUNT": "0"}
    for number, name in enumerate(keys):
        variables["GIT_CONFIG_COUNT"] = str(number + 1)
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = "false" if name.endswith(".required") else ""
    return variables


def repository(root: Path) -> Git | None:
    """The project's own repository around `root`; None if there is none.

    Ask before an agent has worked, and keep the answer. A directory that only looks like a
    repository, without being called `.git`, is none.
    """
    git = trusted_code.program("git", root)
    if not git:
        return None
    names = ("PATH", "HOME")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    words = ["rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel"]
    done = subprocess.run(
        [git, "-C", str(root), *_HARMLESS, *words],
        capture_output=True,
        env=environment,
        timeout=SECONDS,
        check=False,
    )
    lines = os.fsdecode(done.stdout).splitlines()
    if done.returncode or len(lines) != 2:
        return None
    store = Path(lines[0])
    # A directory named `x.git` with HEAD and objects in it may have been laid by anybody.
    if store.is_relative_to(root) and ".git" not in store.relative_to(root).parts:
        return None
    return Git(store, Path(lines[1]), own=False)


def nul(paths: Iterable[str]) -> bytes:
    """Paths as git reads them from standard input."""
    return b"".join([os.fsencode(path) + b"\0" for path in paths])


LARGEST: Final = 32_000_000
"""Bytes of a file; larger ones are left out and named."""
MOST_FILES: Final = 200_000
"""Files."""
DIFF: Final = 200_000
"""Characters of a diff."""
_EMPTY: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_LINK: Final = "120000"


class TreeSnapshot(Value, frozen=True):
    """A state of the tree. Equal trees have equal ids."""

    id: str
    label: str = ""
    files: int = 0
    skipped: tuple[str, ...] = ()
    """Files that were too large to keep."""


@dataclass(frozen=True, slots=True)
class Snapshots(Git):
    """A store of our own for the states of one tree, outside of it.

    Example: `Snapshots(store, tree, store / "index").take(None, "before iteration 1").id`.
    """

    def take(self, project: Git | None, label: str = "") -> TreeSnapshot:
        """Keep the tree as it is now.

        Raises:
            RunError: there are too many files, or git failed.
        """
        tracked = self.names("ls-files", "-z", "--cached")
        names = dict.fromkeys(self.names("ls-files", "-z", "--others", "--exclude-standard"))
        # What is in the index but ignored by now is kept too: `--others` does not list it.
        names |= dict.fromkeys(tracked)
        if project is not None:  # tracked although ignored
            with suppress(RunError):
                at = ["-C", str(self.tree)]
                names |= dict.fromkeys(project.names(*at, "ls-files", "-z", "--cached"))
        if len(names) > MOST_FILES:
            raise RunError(
                f"{len(names):,} files in {str(self.tree)!r}; snapshots take {MOST_FILES:,}"
            )
        stored: list[str] = []
        gone: list[str] = []
        skipped: list[str] = []
        for name in names:
            _sort(self.tree, name, stored, gone, skipped)
        # Removed first: where a file took a folder's place the index cannot hold both.
        self.run("update-index", "-z", "--force-remove", "--stdin", stdin=nul([*gone, *skipped]))
        self.run(
            "update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=nul(stored)
        )
        return TreeSnapshot(self.text("write-tree"), label, len(stored), tuple(skipped))

    def changed(self, a: str, b: str) -> tuple[str, ...]:
        """Paths that differ between two snapshots."""
        return self.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", a or _EMPTY, b)

    def diff(self, a: str, b: str, limit: int = DIFF) -> str:
        """The unified diff between two snapshots, shortened to about `limit` characters."""
        flags = ["--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "-p"]
        raw = self.run("diff-tree", "-r", *flags, a or _EMPTY, b)
        return excerpt(raw.decode("utf-8", "replace"), limit)

    def content(self, snapshot: str, path: str) -> bytes | None:
        """A file of a snapshot; None if it was not there, or is a link."""
        for mode, blob, name in self._entries(snapshot, [path]):
            if name == path and mode != _LINK:
                return self.run("cat-file", "blob", blob)
        return None

    def restore(self, snapshot: str, now: str, only: Sequence[str] | None = None) -> list[str]:
        """Make the tree, which is at `now`, the one of `snapshot`; what was touched.

        `only` some of its paths. Files that snapshots do not keep stay as they are.
        """
        paths = [p for p in self.changed(now, snapshot) if only is None or p in only]
        entries = {name: (mode, blob) for mode, blob, name in self._entries(snapshot, paths)}
        for path in paths:
            if path not in entries:
                _remove(self.tree, path)
        for path, (mode, blob) in entries.items():
            write(self.tree, path, mode, self.run("cat-file", "blob", blob))
        return paths

    def _entries(self, snapshot: str, paths: Sequence[str]) -> list[tuple[str, str, str]]:
        """Mode, blob and name of these paths, where the snapshot has them."""
        if not paths:
            return []
        names = set(paths)
        entries: list[tuple[str, str, str]] = []
        for line in self.names("ls-tree", "-r", "-z", snapshot):
            head, _, name = line.partition("\t")
            if name in names:
                mode, _, blob = head.split(" ")
                entries.append((mode, blob, name))
        return entries

    def whole(self, top: Path) -> str:
        """A snapshot of the whole worktree, of which the work root is a part."""
        return Snapshots(self.store, top, self.store / "top.index").take(None).id

    def ignored(self, root: Path) -> list[str]:
        """What the project ignores and no snapshot has; of caches and the like nothing."""
        names = self.names(
            "ls-files", "-z", "--others", "--ignored", "--exclude-per-directory=.gitignore"
        )
        return [path for path in names if not _made_again(path) and (root / path).exists()]

    def repositories(self) -> list[str]:
        """Folders with a repository of their own, whose files no snapshot has."""
        names = self.names("ls-files", "-z", "--others", "--exclude-standard")
        return [path for path in names if path.endswith("/")]


def shadow(folder: Path, root: Path) -> Snapshots:
    """A store of our own in `folder` for the tree at `root`, made if need be.

    Raises:
        ConfigError: there is no git.
    """
    if not trusted_code.program("git", root):
        raise ConfigError("a loop keeps snapshots with git, and git is not installed")
    store = folder / "snapshots.git"
    git = Snapshots(store, root, store / "index")
    if not (store / "HEAD").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git.run("init", "--quiet", "--template=", str(root))
    (store / "info").mkdir(exist_ok=True)
    (store / "info" / "exclude").write_text("\n".join(MADE_AGAIN) + "\n", encoding="utf-8")
    (store / "info" / "attributes").write_text(PLAIN, encoding="utf-8")
    return git


def _sort(tree: Path, name: str, stored: list[str], gone: list[str], skipped: list[str]) -> None:
    """Into what is kept, what is there no more, and what is too large."""
    if name.endswith("/"):
        return  # another repository, whose files are its own business
    try:
        status = (tree / name).lstat()
    except OSError:
        gone.append(name)
        return
    if any([(tree / parent).is_symlink() for parent in Path(name).parents]):
        gone.append(name)
    elif stat.S_ISLNK(status.st_mode) or (
        stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
    ):
        stored.append(name)
    elif stat.S_ISREG(status.st_mode):
        skipped.append(name)
    else:
        gone.append(name)


def write(tree: Path, path: str, mode: str, data: bytes) -> None:
    """Put one file or link in place, following no link on the way."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        target = tree.joinpath(*parts[:count])
        if not os.path.lexists(target):
            break
        if target.is_symlink() or (count < len(parts) and not target.is_dir()):
            target.unlink()
            break
        if count == len(parts) and target.is_dir():
            _empty(target)
    # Written through descriptors: no link on the way is followed, whoever lays it meanwhile.
    jail = Jail(tree, (), ())
    if mode == _LINK:
        with jail.directory(tuple(parts[:-1]), create=True) as folder:
            with suppress(FileNotFoundError):
                os.unlink(parts[-1], dir_fd=folder)
            os.symlink(os.fsdecode(data), parts[-1], dir_fd=folder)
        return
    jail.write(path, data)
    with jail.directory(tuple(parts[:-1])) as folder:
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        # Of the mode, git keeps only whether a file is executable: all else stays as it is.
        old = stat.S_IMODE(os.fstat(fd).st_mode)
        os.fchmod(fd, old | 0o111 if mode.endswith("755") else old & ~0o111)
        os.close(fd)


def _remove(tree: Path, path: str) -> None:
    parts = path.split("/")
    with suppress(OSError, ValueError), Jail(tree, (), ()).directory(tuple(parts[:-1])) as folder:
        os.unlink(parts[-1], dir_fd=folder)
    for parent in list((tree / path).parents)[: len(parts) - 1]:
        with suppress(OSError):
            # Git knows no empty folders: one that held only removed files goes too.
            parent.rmdir()


def _empty(top: Path) -> None:
    """A directory where a file is wanted: it may hold nothing but what was removed already."""
    # The innermost first; `rmdir` fails on anything that is not empty.
    for folder, _, _ in sorted(os.walk(top), reverse=True):
        Path(folder).rmdir()


def _made_again(name: str) -> bool:
    parts = name.rstrip("/").split("/")
    plain = {pattern.rstrip("/") for pattern in MADE_AGAIN}
    inside = any([f"{part}/" in MADE_AGAIN for part in parts])
    built = any([pattern in name for pattern in MADE_AGAIN if "/" in pattern.rstrip("/")])
    return inside or built or parts[-1] in plain or parts[-1].endswith(".pyc")
