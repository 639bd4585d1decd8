"""The baseline of later gate runs: the files, tools and results before iteration 1.

`Baseline` holds every file by content, the gates with their programs, and their output then;
`Expected` is the required result of a gate from then on. Digests and contents are in a folder
outside the work root. The folder need not be trusted beyond the digest of the baseline, which is in
the loop's log: every content is checked against it before use. `baseline_capture` takes the first
baseline.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from taofold.core.errors import LogError
from taofold.core.failing_checks import Status
from taofold.core.values import Value
from taofold.loop.gates.scope import ScopeRules, role, with_tree
from taofold.loop.gates.tree import KeptFile, content
from taofold.loop.verdict import Gate

_TEXT: Final = 400_000
"""The bytes of a file in which names of other files are searched."""
FILE: Final = "baseline.json"
_NODE = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")


class Expected(Value, frozen=True):
    """The results of one gate before iteration 1."""

    checks: dict[str, Status | None] = {}
    """Every id, with its status; None = collected but not run."""
    names: dict[str, tuple[str, ...]] = {}
    """Tests in files that could not be loaded, by the name of the file."""
    patched: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The files that a linter checked."""


class Baseline(Value, frozen=True):
    """All data with which later runs of the gates are compared."""

    root: str
    gates: tuple[Gate, ...] = ()
    files: dict[str, KeptFile] = {}
    """Every file of the tree except those of environments and build outputs."""
    named: tuple[str, ...] = ()
    """Files that gates run or compare with, and the targets of links among the tests."""
    allow_edit: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    """Folders of installed packages in the work root."""
    linked: dict[str, str] = {}
    """Links to such folders elsewhere, and their targets, which gates see read-only."""
    parents: dict[str, str] = {}
    """Digests of configuration above the tree, if gates are not contained."""
    path: str = ""
    """`PATH` at the loop's start, without folders that an agent could write to."""
    expected: tuple[Expected, ...] = ()
    wanted: tuple[str, ...] = ()
    """Files that a gate's command names and only reads."""
    outside: tuple[str, ...] = ()
    """Names of modules that are installed, or come with the interpreter."""
    installed: dict[str, dict[str, str]] = {}
    """Packages outside the work root, with their versions, by the folder that holds them."""
    targets: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    """The includes of Makefiles, as globs."""
    headers: tuple[str, ...] = ()
    """Headers of the system that the project's code includes, directly or indirectly."""
    suspects: dict[str, str] = {}
    """Files that may decide although they look like the product's, each with the reason."""
    outputs: tuple[str, ...] = ()
    """Folders of build outputs that the first run of the gates made."""
    repositories: tuple[str, ...] = ()
    """Entries that make git see a repository in the tree, besides `.git` of the root."""
    made: tuple[str, ...] = ()
    """Files and folders that the gates created before any work."""
    rewritten: tuple[str, ...] = ()
    """Files of the tree that the gates themselves changed before any work."""

    @property
    def digest(self) -> str:
        """The digest for the loop's log."""
        return hashlib.sha256(_encoded(self)).hexdigest()

    def rules(self) -> ScopeRules:
        """Returns the rules by which changes of this tree join the proof."""
        given = ScopeRules(
            named=frozenset(self.named),
            wanted=frozenset(self.wanted),
            allow_edit=self.allow_edit,
            targets=frozenset(self.targets),
            scope=self.scope,
            headers=frozenset(self.headers),
            included=self.included,
            made=frozenset(self.made),
        )
        return with_tree(given, self.files, self.outside)

    def text(self, objects: Path, path: str) -> str:
        """Returns the text of a file; "" if it is not text, or large."""
        file = self.files.get(path)
        if file is None or not file.digest or not file.stored:
            return ""
        return content(objects, file.digest)[:_TEXT].decode("utf-8", "replace")

    def test_sources(self, objects: Path) -> dict[str, str]:
        """Returns the texts of files that hold tests, and of those that name Go's modules."""
        return {
            path: content(objects, file.digest).decode("utf-8", "replace")
            for path, file in self.files.items()
            if file.digest and file.stored and self._tells_tests(path)
        }

    def _tells_tests(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if path.endswith(_NODE):
            return "test" in path  # node recognises more names as tests than `role`
        return name == "go.mod" or (
            path.endswith((".py", "_test.go")) and role(path, self.named) in ("test", "command")
        )


def save(folder: Path, baseline: Baseline, *, beside: bool = False) -> None:
    """Writes the baseline atomically.

    `beside`: the first one stays. The loop's log, written afterwards, decides which one is valid.
    """
    name = f"baseline-{baseline.digest[:16]}.json" if beside else FILE
    temporary = folder / f"{name}.{os.getpid()}"
    temporary.write_bytes(_encoded(baseline))
    temporary.rename(folder / name)


def load(folder: Path, digest: str) -> Baseline:
    """Returns the baseline in `folder` with this digest.

    Raises:
        LogError: There is none, or it was changed.
    """
    later = folder / f"baseline-{digest[:16]}.json"
    try:
        raw = (later if later.exists() else folder / FILE).read_bytes()
    except OSError as error:
        raise LogError(f"the loop's baseline cannot be read: {error}") from error
    # The folder is only as trustworthy as this digest, which is in the loop's log.
    if hashlib.sha256(raw).hexdigest() != digest:
        raise LogError(f"the loop's baseline in {str(folder)!r} was changed; it is not used")
    return msgspec.json.decode(raw, type=Baseline)


def _encoded(baseline: Baseline) -> bytes:
    return msgspec.json.encode(baseline, order="deterministic")
