"""Computes the changes of a work root since the baseline, and reverts those that tamper.

It finds the changes that join the proof, and the doubts in changed texts (a silenced finding). It
also finds configuration of the runners in the directories above the tree (`above`) and, for the
capture of a baseline, the targets of links among deciding files (`with_link_targets`).

Nothing is deleted: removed files are moved to a folder outside. Every component of a path is opened
without following links, because the tree may contain links that redirect these writes.
"""

import hashlib
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import structs

from taofold.core.errors import ConfigError, LogError
from taofold.core.values import Value
from taofold.loop.gates.baseline import Baseline
from taofold.loop.gates.inline_tests import replaces_assertions, splice
from taofold.loop.gates.scope import (
    CODE,
    DECIDES,
    IGNORED,
    LINK,
    TEST_FOLDERS,
    TEST_ROOTS,
    ScopeRules,
    exclusion,
    is_allowed,
    role,
)
from taofold.loop.gates.tree import (
    MOST_FILES,
    FileCache,
    KeptFile,
    TreeWalk,
    content,
    parents_of,
    store,
)
from taofold.loop.verdict import ChangeKind, Runner, TreeChange
from taofold.parsing.silencers import Silencer, added, silencers, unannotated, unsilenced
from taofold.parsing.untrusted_text import first_names, one_line
from taofold.tools.jail import Jail


class WorkDiff(Value, frozen=True):
    """The difference between a work root and its baseline."""

    now: dict[str, KeptFile | None] = {}
    """The current files at paths that differ; None = the file is gone."""
    left_out: dict[str, str] = {}
    """Paths of `now` that do not join the proof, each with the reason."""
    tampering: tuple[str, ...] = ()
    """Deciding files of the baseline that were changed or deleted."""
    ignored: tuple[str, ...] = ()
    """New files and folders that no snapshot keeps."""

    @property
    def joined(self) -> tuple[str, ...]:
        """Paths that join the proof."""
        return tuple(sorted(self.now.keys() - self.left_out.keys()))

    def proof(self, baseline: Baseline) -> dict[str, KeptFile]:
        """Returns the baseline with the changes that join the proof."""
        joined = {path: file for path, file in self.now.items() if path not in self.left_out}
        return _with(baseline.files, joined)

    def delivery(self, baseline: Baseline) -> dict[str, KeptFile]:
        """Returns the baseline with every change except tampering."""
        # Files outside the proof are delivered too: new tests, documents, data.
        rest = {path: file for path, file in self.now.items() if path not in self.tampering}
        return _with(baseline.files, rest)

    def new(self) -> tuple[str, ...]:
        """Returns the changed paths without tampering."""
        return tuple([path for path in self.now if path not in self.tampering])

    def changes(self, baseline: Baseline) -> tuple[TreeChange, ...]:
        """Returns the omitted and allowed changes. Tampering has a separate list."""
        changes = [
            TreeChange(
                path, _did(path, file, baseline), "kept", "the user allowed it", tampering=False
            )
            for path, file in self.now.items()
            if path not in self.left_out and role(path, baseline.named) in DECIDES
        ]
        for path, why in self.left_out.items():
            if path not in self.tampering:
                did = _did(path, self.now[path], baseline)
                changes.append(TreeChange(path, did, "left out", why, tampering=False))
        changes += [
            TreeChange(path, "added", "left out", IGNORED, tampering=False) for path in self.ignored
        ]
        return tuple(changes)


def _did(path: str, now: KeptFile | None, baseline: Baseline) -> ChangeKind:
    if path not in baseline.files:
        return "added"
    return "deleted" if now is None else "changed"


def observe_work(
    root: Path, baseline: Baseline, files: FileCache, snapshot: Collection[str] | None = None
) -> WorkDiff:
    """Observes the work root. With a `snapshot`, new files count only if they are in it.

    Raises:
        ConfigError: There are too many files.
    """
    now: dict[str, KeptFile | None] = {}
    for path, was in baseline.files.items():
        current = files.kept(path)
        if current is None or not current.same(was):
            now[path] = current
    walk = TreeWalk(root, (*baseline.environments, *baseline.outputs))
    if len(walk.files) > MOST_FILES:
        raise ConfigError(
            f"{str(root)!r} has {len(walk.files):,} files; gates work with at most {MOST_FILES:,}"
        )
    kept = (*baseline.files, *(snapshot or ()))
    known = {parent for path in kept for parent in parents_of(path)}
    ignored: dict[str, None] = {}
    for path in walk.files:
        if path in baseline.files:
            continue
        # Files that no snapshot keeps are not delivered, and so must not help a gate to pass.
        if snapshot is not None and path not in snapshot:
            ignored[next((at for at in parents_of(path) if at not in known), path)] = None
            continue
        current = files.kept(path)
        if current is not None:
            now[path] = current
    left_out, tampering = _sorted(now, baseline)
    return WorkDiff(now, left_out, tampering, tuple(ignored))


def changed_work(
    baseline: Baseline, changes: Mapping[str, tuple[int, bytes] | None], objects: Path
) -> WorkDiff:
    """Returns a difference from the baseline by mode and content, and stores the contents."""
    now: dict[str, KeptFile | None] = {}
    for path, change in changes.items():
        file = None
        if change is not None:
            digest = hashlib.sha256(change[1]).hexdigest()
            store(objects, digest, change[1])
            file = KeptFile(digest, change[0])
        was = baseline.files.get(path)
        if (file is None and was is not None) or (file is not None and not file.same(was)):
            now[path] = file
    left_out, tampering = _sorted(now, baseline)
    return WorkDiff(now, left_out, tampering)


def with_link_targets(
    files: Mapping[str, KeptFile], root: Path, named: Collection[str]
) -> frozenset[str]:
    """Returns `named` and the targets of links among deciding files, inside the tree."""
    targets = set(named)
    links = {path: file.link for path, file in files.items() if file.link}
    # A link may lead to another link: repeats until nothing new is found, at most once per link.
    for _ in range(len(links) + 1):
        before = len(targets)
        for path, link in links.items():
            folder = path.rpartition("/")[2].casefold() in TEST_FOLDERS | TEST_ROOTS
            if folder or role(path, targets) in DECIDES:
                target = os.path.normpath((root / path).parent / link)
                if target.startswith(f"{root}/"):
                    targets.add(target[len(str(root)) + 1 :])
        if len(targets) == before:
            break
    return frozenset(targets)


def _sorted(
    now: Mapping[str, KeptFile | None], baseline: Baseline
) -> tuple[dict[str, str], tuple[str, ...]]:
    rules = baseline.rules()
    left_out: dict[str, str] = {}
    tampering: list[str] = []
    for path, file in now.items():
        why = _why_left_out(path, file, baseline, rules)
        if not why:
            continue
        left_out[path] = why
        if path in baseline.files and role(path, rules.named) in DECIDES:
            tampering.append(path)
    return left_out, tuple(tampering)


def _why_left_out(path: str, now: KeptFile | None, baseline: Baseline, rules: ScopeRules) -> str:
    was = baseline.files.get(path)
    why = exclusion(path, new=was is None, rules=rules)
    if why or is_allowed(path, rules.allow_edit):
        return why
    return LINK if any([file is not None and file.link for file in (now, was)]) else ""


def _with(
    files: Mapping[str, KeptFile], changes: Mapping[str, KeptFile | None]
) -> dict[str, KeptFile]:
    """Returns a tree with changes; a file in the place of a folder removes the folder's files."""
    tree = {**files, **{path: file for path, file in changes.items() if file is not None}}
    for path, change in changes.items():
        if change is None:
            tree.pop(path, None)
    # A file cannot lie below another file: where one replaced a folder, its files are gone.
    blocked = {path for path in tree for at in parents_of(path) if at in tree}
    return {path: file for path, file in tree.items() if path not in blocked}


PARENTS: Final = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
    *("pyproject.toml", "setup.cfg", "package.json", "ruff.toml", ".ruff.toml", "mypy.ini"),
    *("setup.py", "tsconfig.json", "go.work", "Cargo.toml", ".cargo/config.toml", "go.mod"),
)
"""Files that also count in the directories above a tree, if those are visible."""


def above(tree: Path) -> dict[str, str]:
    """Returns digests of runner configuration in the directories above `tree`."""
    digests: dict[str, str] = {}
    for folder in tree.parents:
        for name in PARENTS:
            with suppress(OSError):
                digests[str(folder / name)] = hashlib.sha256(
                    (folder / name).read_bytes()
                ).hexdigest()
    return digests


def restore_file(
    root: Path, folder: Path, baseline: Baseline, path: str, now: KeptFile | None
) -> TreeChange:
    """Restores the file at `path` from the baseline; the current file is moved aside.

    Raises:
        LogError: The baseline's own content was changed.
    """
    was = baseline.files[path]
    did: ChangeKind = "deleted" if now is None else "changed"
    try:
        if not was.stored:
            raise ValueError("its content is too large to have been kept")
        data = content(folder / "objects", was.digest) if was.digest else b""
        _clear(root, folder, path)
        if was.link:
            link = root / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(was.link)
        else:
            jail = Jail(root, (), ())
            jail.write(path, data)
            _mode(jail, path, was.mode)
    except (OSError, ValueError) as error:
        return TreeChange(
            path, did, "reported", f"it is protected; it could not be put right: {error}"
        )
    return TreeChange(path, did, "restored", "it is protected")


def remove_planted(root: Path, folder: Path, path: str, why: str) -> TreeChange:
    """Moves a planted file out of the tree."""
    try:
        _aside(root, folder, path)
    except (OSError, ValueError) as error:
        return TreeChange(path, "planted", "reported", f"{why}; it could not be moved: {error}")
    return TreeChange(path, "planted", "set aside", why)


def _clear(root: Path, folder: Path, path: str) -> None:
    """Clears the way for `path`: links and files in place of directories, and its old entry."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        part = "/".join(parts[:count])
        try:
            status = (root / part).lstat()
        except FileNotFoundError:
            return
        last = count == len(parts)
        # A directory on the way stays; a file or a link in its place was planted.
        if last or not stat.S_ISDIR(status.st_mode):
            _aside(root, folder, part)
            return


SET_ASIDE: Final = "set-aside"
"""The folder of a loop with the files moved out of the work root."""


def _aside(root: Path, folder: Path, path: str) -> None:
    """Moves `path` out of the tree and keeps its path there."""
    # A file that was moved aside is never overwritten, not even by the same loop.
    for number in range(1, 100_000):
        target = folder / SET_ASIDE / str(number) / path
        if not os.path.lexists(target) and not os.path.lexists(target.parents[path.count("/")]):
            break
    else:
        raise LogError(f"{str(folder)!r} is full of files that were set aside")
    target.parent.mkdir(parents=True)
    # Opening it refuses a path that leads through a link.
    with Jail(root, (), ()).directory(tuple(path.split("/")[:-1])):
        shutil.move(root / path, target)


def _mode(jail: Jail, path: str, mode: int) -> None:
    *folders, name = path.split("/")
    with jail.directory(tuple(folders)) as opened:
        # By descriptor: the name could be a link by the time `chmod` follows it.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
        with suppress(OSError):
            os.fchmod(fd, mode)
        os.close(fd)


UNANNOTATED: Final = (
    "a type checker does not look into functions without annotations, and these lost theirs: {}"
)
_MEDDLES: Final = re.compile(
    # Calls that end the process, or replace it.
    r"\b(?:os|syscall)\.Exit\b|\bos\.(?:abort|exec[lv]\w*)\b|\b(?:_{0,2}|quick_)[eE]xit\("
    r"|\bSystemExit\b|\breallyExit\b|\bprocess\.exitCode\b|\bprocess::(?:exit|abort)\b"
    r"|--- PASS|\btest result: ok"
    # The runner, and signs by which code detects that it is tested.
    r"|\b_?pytest\b|\bunittest\b|\bPYTEST_\w+|\b__builtins__\b|\bbuiltins\.\w+ *=[^=]"
    r"|\bsys\.(?:_getframe|settrace|setprofile|modules)\b|\bgc\.get_\w+"
    r"|\binspect\.(?:stack|currentframe)\b"
    r"|\bnode:(?:test|assert)\b|\brequire\(['\"](?:assert|module|vm)\b|['\"](?:vitest|@jest/\w+)['\"]"
    r"|\b(?:NODE_TEST_CONTEXT|JEST_WORKER_ID|VITEST)\b"
    r"|\b(?:global|globalThis)\.(?:expect|test|it|describe|assert)\b|\bexpect\.extend\b"
    r"|\btesting\.(?:Testing|Init|MainStart)\b|\bos\.Args *=[^=]|\"test\.\w+\"|\bgo:linkname\b"
    r"|\bcfg!?\s*\(\s*(?:not\s*\(\s*)?(?:test|debug_assertions)\b|\binit_array\b"
    r"|\#\s*(?:undef|define)\s+(?:assert|NDEBUG|main|if|return|exit|abort)\b"
    r"|__attribute__\s*\(\(\s*constructor"
    # Objects that equal everything.
    r"|\b__(?:eq|ne)__['\"]? *[:=] *lambda\b"
    r"|\bdef __(?:eq|ne)__\(.*\).*:\s*return (?:True|False)\b|\bfn eq\(.*\) *-> *bool *\{\s*true"
    r"|\boperator *==.*\{\s*return (?:true|1)\b"
)
"""Code that ends its tests, prints their results, or detects its runner."""
_LANGUAGES: Final = (".py", ".rs")


class Texts:
    """The changed source files of one piece of work. Construction blocks."""

    def __init__(self, baseline: Baseline, work: WorkDiff, objects: Path) -> None:
        self._baseline, self._work, self._objects = baseline, work, objects
        # Files of --allow-edit are used unchanged, including silencing marks.
        self._changed = {
            path: (self._text(baseline.files.get(path)), self._text(file))
            for path, file in work.now.items()
            if path not in work.left_out and not is_allowed(path, baseline.allow_edit)
        }

    def proof(self) -> dict[str, KeptFile]:
        """Returns the files of the proof; changed sources contain the baseline's tests."""
        files = self._work.proof(self._baseline)
        for path, (old, new) in self._changed.items():
            if path not in files or not path.endswith(_LANGUAGES):
                continue
            if path.endswith(".py") and not self._holds_tests(path):
                continue
            text = splice(path, old, new)
            if text != new:
                files[path] = self._stored(files[path], text)
        return files

    def doubts(self, runner: Runner) -> tuple[str, ...]:
        """Returns the doubts of the changed texts about a verdict of `runner`."""
        if runner == "cargo":
            paths = replaces_assertions(self._changed)
            return tuple([f"{path} replaces what tests assert with" for path in paths])
        if runner == "mypy":
            names = unannotated(self._changed)
            return (UNANNOTATED.format(first_names(names)),) if names else ()
        return ()

    def meddling(self) -> list[str]:
        """Returns the files in which the work newly contains code that may deceive a runner.

        The code may be legitimate: a program ends with an exit code.
        """
        found: list[str] = []
        for path, (old, new) in self._changed.items():
            if path.rpartition(".")[2] not in CODE:
                continue
            signs = Counter(_MEDDLES.findall(new)) - Counter(_MEDDLES.findall(old))
            if signs:
                found.append(f"{one_line(path)} ({one_line(next(iter(signs)), 40)})")
        return found

    @cached_property
    def silenced(self) -> dict[str, list[Silencer]]:
        """Files in which the work silences a check, with the marks."""
        texts = self._changed.values()
        new = set(added([old for old, _ in texts], [now for _, now in texts]))
        marks = {
            path: [m for m in silencers(now) if m in new]
            for path, (_, now) in self._changed.items()
        }
        return {path: found for path, found in marks.items() if found}

    def unsilenced(self, files: Mapping[str, KeptFile]) -> dict[str, KeptFile]:
        """Returns `files` without silencing marks on the lines that the work wrote."""
        laid = dict(files)
        before = {line for old, _ in self._changed.values() for line in old.splitlines()}
        for path, marks in self.silenced.items():
            if path in laid:
                text = unsilenced(self._text(laid[path]), marks, before.__contains__)
                laid[path] = self._stored(laid[path], text)
        return laid

    def _stored(self, file: KeptFile, text: str) -> KeptFile:
        data = text.encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(data).hexdigest()
        store(self._objects, digest, data)
        return structs.replace(file, digest=digest)

    def _holds_tests(self, path: str) -> bool:
        """Returns whether a runner collects tests from this Python file."""
        ids = [
            name
            for expected in self._baseline.expected
            for name in (*expected.checks, *expected.names)
        ]
        return any([name == path or name.startswith(f"{path}::") for name in ids])

    def _text(self, file: KeptFile | None) -> str:
        if file is None or not file.digest or not file.stored:
            return ""
        return content(self._objects, file.digest).decode("utf-8", "surrogateescape")
