"""Runs git so that it obeys nothing that an agent could have written.

`Git` is one repository: a store of snapshots, or the project's own, to which `Git.committed`
commits. A store has its own index, configuration and attributes. The project's `repository` is
found once, before an agent has worked, and is used only for commands that run nothing. Its
configuration may name programs (filters, monitors, hooks), so each of them is overridden by name,
and writes use plumbing.
"""

import os
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taofold import trusted_code
from taofold.core.errors import Refused, RunError

SECONDS: Final = 300
_HARMLESS: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*"),
    *("-c", "safe.bareRepository=explicit", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.pager=cat", "-c", "core.editor=true", "-c", "core.sshCommand=false"),
    *("-c", "submodule.recurse=false", "-c", "protocol.allow=never", "-c", "gpg.program=false"),
)
"""Options that disable everything that git would run by its configuration, anywhere."""
_AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "taofold",
    "GIT_AUTHOR_EMAIL": "taofold@localhost",
    "GIT_COMMITTER_NAME": "taofold",
    "GIT_COMMITTER_EMAIL": "taofold@localhost",
}


@dataclass(frozen=True, slots=True)
class Git:
    """One repository with one work tree and optionally its own index."""

    store: Path
    tree: Path
    index: Path | None = None
    own: bool = True
    """True if it is ours, outside the work root; False for the project's."""
    flushes: bool = True
    """False: a later command that flushes makes what this one writes survive a power failure."""

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        more: Mapping[str, str] | None = None,
        codes: Sequence[int] = (0,),
    ) -> bytes:
        """Returns the standard output of `git words`.

        Raises:
            RunError: Git failed; the message is git's.
        """
        git = trusted_code.program("git", self.tree)
        if not git:
            raise RunError("git is not installed, or only in a folder that an agent can write to")
        # `--literal-pathspecs`: a file may be named `:(exclude)*`.
        flags = ["--literal-pathspecs", *_HARMLESS, "-c", "gc.auto=0", "-c", "core.quotePath=false"]
        # Our store keeps contents unchanged; in the project's repository its own settings apply.
        if self.own:
            flags += ["-c", "core.autocrlf=false", "-c", "core.symlinks=true"]
            # Only `.gitignore` files of the tree count, so that equal trees have equal states.
            flags += ["-c", f"core.excludesFile={os.devnull}"]
            flags += ["-c", "core.preloadIndex=true", "-c", "core.untrackedCache=false"]
            # A state that a log names survives a power failure.
            method = "batch" if self.flushes else "writeout-only"
            flags += ["-c", "core.fsync=loose-object,pack,reference"]
            flags += ["-c", f"core.fsyncMethod={method}"]
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
        variables = _inherited("PATH", "HOME", "TMPDIR")
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
        """Returns the settings of the project's configuration that name filter programs."""
        git = trusted_code.program("git", self.tree)
        words = ("config", "--list", "--name-only", "-z")
        done = _configured(git, words, self.tree, {"GIT_DIR": str(self.store)})
        keys = os.fsdecode(done.stdout).split("\0")
        return tuple(dict.fromkeys([key for key in keys if key.startswith("filter.")]))

    def text(self, *words: str) -> str:
        """Returns the output as one line of text."""
        return self.run(*words).decode("utf-8", "surrogateescape").strip()

    def names(self, *words: str, stdin: bytes = b"") -> tuple[str, ...]:
        """Returns NUL-separated output."""
        # Decoded at once: a tree has many names.
        return tuple(
            [name for name in os.fsdecode(self.run(*words, stdin=stdin)).split("\0") if name]
        )

    def committed(
        self,
        root: Path,
        index: Path,
        branch: str,
        title: str,
        body: str,
        changed: Collection[str] = (),
    ) -> str:
        """Commits the files below `root` on `branch`, after its last commit or the current one.

        No filter runs. A file that the project filters (large files, secrets) stays as committed
        before unless it is one of `changed`, relative to `root`; then it is committed unfiltered.

        Returns:
            The commit; "" if nothing changed since.

        Raises:
            Refused: The branch is checked out, or its name is invalid.
            RunError: Git failed.
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
        # With the old value: a concurrent move of the branch is not overwritten.
        git.run("update-ref", "-m", title, reference, commit, git._commit(reference) or "0" * 40)
        return commit

    def _unfiltered(self, parent: str, changed: Collection[str]) -> None:
        """Uses the parent's entries for files that a filter would change."""
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
        """Returns the reference of a branch that may get commits without affecting the user's work.

        Raises:
            Refused: The branch is checked out, or its name is invalid.
        """
        reference = f"refs/heads/{branch}"
        try:
            self.run("check-ref-format", reference)
        except RunError:
            raise Refused(f"{branch!r} is not a valid branch name") from None
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
        """Returns our identity if git knows none for the user."""
        try:
            self.run("var", "GIT_COMMITTER_IDENT")
        except RunError:
            return _AUTHOR
        return {}


def _inherited(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _configured(
    git: str, words: Sequence[str], folder: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Queries the user's and the project's git configuration in `folder`."""
    return subprocess.run(
        [git, "-C", str(folder), *_HARMLESS, *words],
        env={**_inherited("PATH", "HOME"), **(more or {})},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


def _overridden(keys: Iterable[str]) -> dict[str, str]:
    """Returns variables with which git runs none of these filters."""
    # Configuration from the environment overrides every file, so no file has to be trusted.
    variables = {"GIT_CONFIG_COUNT": "0"}
    for number, name in enumerate(keys):
        variables["GIT_CONFIG_COUNT"] = str(number + 1)
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = "false" if name.endswith(".required") else ""
    return variables


def repository(root: Path) -> Git | None:
    """Returns the project's own repository around `root`; None if there is none.

    Call it before an agent has worked, and keep the result. A directory that only looks like a
    repository, without the name `.git`, is not one.
    """
    git = trusted_code.program("git", root)
    if not git:
        return None
    words = ("rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel")
    done = _configured(git, words, root)
    lines = os.fsdecode(done.stdout).splitlines()
    if done.returncode or len(lines) != 2:
        return None
    store = Path(lines[0])
    # Anyone may have created a directory `x.git` with HEAD and objects in it.
    if store.is_relative_to(root) and ".git" not in store.relative_to(root).parts:
        return None
    return Git(store, Path(lines[1]), own=False)


def nul(paths: Iterable[str]) -> bytes:
    """Returns paths in the form in which git reads them from standard input."""
    return b"".join([os.fsencode(path) + b"\0" for path in paths])
