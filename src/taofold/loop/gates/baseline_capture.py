"""Captures the baseline: the current tree (`capture`), and facts from the first gate run
(`learnt`).

The facts are the expected results, and the modules that the interpreters find outside the tree. A
`LoopFolder`, outside the work root, gets the contents, and copies of environments and of build
outputs. `baseline` stores and queries the result; `judge` decides the time.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from taofold.core.errors import ConfigError
from taofold.loop.gates import inline_tests
from taofold.loop.gates.baseline import Baseline
from taofold.loop.gates.commands import search_path
from taofold.loop.gates.expectations import expected, homes
from taofold.loop.gates.gate_files import (
    is_recipe,
    named_files,
    recipes,
    targets,
    wanted_files,
)
from taofold.loop.gates.gate_run import Bench, GateRun, plan_of
from taofold.loop.gates.hidden_checks import (
    configured,
    development,
    extended,
    helpers,
    included,
    suspects,
    used_by_tests,
)
from taofold.loop.gates.installed import installed
from taofold.loop.gates.scope import DECIDES, role
from taofold.loop.gates.tree import (
    MOST_BYTES,
    MOST_FILES,
    NODE_CACHES,
    NODE_MODULES,
    FileCache,
    KeptFile,
    Tree,
    TreeWalk,
    content,
    copy_folder,
    remove_folder,
)
from taofold.loop.gates.work_diff import above, with_link_targets
from taofold.loop.verdict import Gate
from taofold.tools.containment import linked_environment

_NAMES: Final = """
import json, os, sys
found = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
for place in sys.path:
    try:
        found.update(name.partition(".")[0] for name in os.listdir(place))
    except OSError:
        pass
print(json.dumps([sorted(name for name in found if name.isidentifier()), sys.path]))
"""
"""Lists the names of all modules that an interpreter finds, and the folders that hold them."""


_C: Final = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".m", ".mm")
_ANGLED: Final = re.compile(r"(?m)^[ \t]*#[ \t]*include(?:_next)?[ \t]*<([^>\n]+)>")
_HEADERS: Final = (
    *("include", "local/include", "include/*-linux-*", "include/c++/*", "lib/gcc/*/*/include"),
)
"""Folders below `/usr` with headers of the system, as globs."""


class LoopFolder:
    """A loop's own folder, outside the work root, with the data of the baseline."""

    def __init__(self, path: Path) -> None:
        self.path, self.objects, self.tree = path, path / "objects", path / "tree"

    def environment(self, number: int) -> Path:
        """Returns the path of the copy of an environment."""
        return self.path / "environments" / str(number)

    def output(self, number: int) -> Path:
        """Returns the path of a build output of the first run."""
        return self.path / "outputs" / str(number)


def capture(
    root: Path,
    folder: LoopFolder,
    files: FileCache,
    gates: tuple[Gate, ...],
    allow_edit: tuple[str, ...],
    scope: tuple[str, ...] = (),
    *,
    contained: bool,
) -> Baseline:
    """Captures the current tree.

    Raises:
        ConfigError: It is too large to be copied for each verdict.
    """
    walk = TreeWalk(root)
    if len(walk.files) > MOST_FILES:
        raise ConfigError(
            f"{str(root)!r} has {len(walk.files):,} files; gates work with at most {MOST_FILES:,}"
        )
    tree: dict[str, KeptFile] = {}
    size = 0
    for path in walk.files:
        file = files.kept(path)
        if file is not None:
            tree[path] = file
            size += (root / path).lstat().st_size if file.stored else 0
        # Checked while it grows, so that a terabyte is not read first.
        if size > MOST_BYTES:
            raise ConfigError(
                f"{str(root)!r} holds more than {MOST_BYTES:,} bytes besides installed packages; "
                "gates work on a copy: move data out of it, or use --worktree"
            )
    # Environments are copied: an agent may install packages, which gates must not see.
    for number, environment in enumerate(walk.environments):
        _copied_once(root / environment, folder.environment(number))
    links = {path: linked_environment(root / path, root) for path, f in tree.items() if f.link}
    own = {*named_files(gates, root), *_rust_tests(tree, folder.objects)}
    baseline = Baseline(
        root=str(root),
        gates=gates,
        files=tree,
        named=tuple(sorted(with_link_targets(tree, root, own))),
        allow_edit=allow_edit,
        scope=scope,
        environments=tuple(walk.environments),
        linked={path: str(target) for path, target in links.items() if target is not None},
        path=search_path(root),
        wanted=wanted_files(gates),
        targets=targets(gates, root),
        repositories=tuple(walk.repositories),
        parents={} if contained else above(folder.tree),
    )

    def text(path: str) -> str:
        return baseline.text(folder.objects, path)

    paths = tree.keys()
    own |= configured(paths, text) | extended(paths, text) | development(paths, text)
    return structs.replace(
        baseline,
        named=tuple(sorted({*baseline.named, *own})),
        included=included(paths, text),
    )


def learnt(baseline: Baseline, folder: LoopFolder, tree: Tree, run: GateRun) -> Baseline:
    """Adds the facts from the first run of the next gate."""
    was = expected(run.plan.runner, run.report, baseline.test_sources(folder.objects))

    def text(path: str) -> str:
        return baseline.text(folder.objects, path)

    own = {
        *run.report.toolchain,
        *homes(run.plan.runner, was, baseline.files, text),
    }
    outputs = list(baseline.outputs)
    for output in tree.built():
        if output not in outputs:
            _copied_once(tree.folder / output, folder.output(len(outputs)))
            outputs.append(output)
    return structs.replace(
        baseline,
        expected=(*baseline.expected, was),
        named=tuple(sorted({*baseline.named, *(own & baseline.files.keys())})),
        outputs=tuple(outputs),
        made=tuple(dict.fromkeys([*baseline.made, *tree.made()])),
        # Outputs that the gates write themselves, such as snapshots, are not tampering.
        rewritten=tuple(dict.fromkeys([*baseline.rewritten, *tree.touched()])),
    )


def completed(baseline: Baseline, folder: LoopFolder) -> Baseline:
    """Returns the baseline with what the tests that all gates have run reveal about other files."""

    @cache
    def text(path: str) -> str:
        return baseline.text(folder.objects, path)

    paths = baseline.files.keys()
    tests = {path for path in paths if role(path, baseline.named) == "test"}
    tests |= {path for path in baseline.named if path in paths}
    named = {*baseline.named, *helpers(paths, tests, text)}
    decides = {path for path in paths if role(path, named) in DECIDES}
    exits = [gate for gate in baseline.gates if plan_of(gate).runner == "command"]
    commands = recipes(exits, Path(baseline.root))
    commands |= {path: text(path) for path in decides if exits and is_recipe(path, named)}
    suspected = {
        **used_by_tests(paths, tests, text),
        **suspects(commands, paths, decides, text),
    }
    code = [text(path) for path in paths if path.endswith(_C)]
    return structs.replace(
        baseline,
        named=tuple(sorted(named)),
        suspects=suspected,
        headers=tuple(sorted(_system_headers(code))),
    )


def _system_headers(texts: Iterable[str]) -> set[str]:
    """Returns the headers of the system that C code includes, directly or indirectly."""
    found: set[str] = set()
    todo = [text for text in texts if "include" in text]
    folders = [folder for glob in _HEADERS for folder in Path("/usr").glob(glob)] if todo else []
    while todo:
        for name in _ANGLED.findall(todo.pop()):
            if name not in found:
                found.add(name)
                paths = [folder / name for folder in folders if (folder / name).is_file()]
                todo += [path.read_bytes().decode("utf-8", "replace") for path in paths]
    return found


async def with_outside(baseline: Baseline, bench: Bench, folder: LoopFolder) -> Baseline:
    """Returns the baseline with the modules and packages that the gates' interpreters find."""
    gates = baseline.gates
    programs = {"python", "python3", *[bench.program(gate) for gate in gates]}
    # The modules of every interpreter count: a gate's script may choose any of them.
    programs |= {str(bench.tree.seen / folder / "bin" / "python") for folder in bench.environments}
    modules: set[str] = set()
    places: set[Path] = set()
    for program in sorted(programs):
        if "python" in Path(program).name:
            ran = await bench.run(Gate(program, timeout=60, argv=(program, "-I", "-c", _NAMES)))
            names, path = _decoded(ran.printed) if ran.code == 0 else ([], [])
            modules |= {*names}
            places |= {bench.tree.host(Path(place)) for place in path}
    # The work root belongs to the agent, and the loop's folder holds copies.
    own = (bench.tree.root, folder.path)
    beyond = [place for place in places if not any([place.is_relative_to(at) for at in own])]
    return structs.replace(baseline, outside=tuple(sorted(modules)), installed=installed(beyond))


def _rust_tests(files: dict[str, KeptFile], objects: Path) -> set[str]:
    tests: set[str] = set()
    for path, file in files.items():
        if path.endswith(".rs") and file.digest and file.stored:
            text = content(objects, file.digest).decode("utf-8", "replace")
            tests.update(inline_tests.modules(path, text))
    return tests & files.keys()


def _copied_once(source: Path, target: Path) -> None:
    """Copies a folder; a process that dies in between leaves nothing that looks like a copy."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_suffix(".half")
        if half.exists():
            remove_folder(half)
        copy_folder(source, half)
        # A mount needs an existing folder (`gate_run`).
        for name in NODE_CACHES if source.name == NODE_MODULES else ():
            with suppress(FileExistsError):
                (half / name).mkdir()
        half.rename(target)


def _decoded(text: str) -> tuple[list[str], list[str]]:
    try:
        return msgspec.json.decode(text, type=tuple[list[str], list[str]])
    except msgspec.DecodeError:
        return [], []
