"""Features beside the best other framework: concepts, lines, tokens, requests, replay.

    TAOFOLD_PEERS=ENVIRONMENT python bench/features/run.py [--only FEATURE] [--concepts]

ENVIRONMENT is a virtual environment with the other frameworks; a framework that is missing there is
skipped, and its command is printed. Each program runs in a new git repository with the files of
`programs/shared`, against a scripted server. The runner checks its output and its requests.
"""

import argparse
import ast
import builtins
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from server import Call, Player, Say, compact, serve

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
SHARED = PROGRAMS / "shared"
OURS = "taofold"
TOKENIZER = "bpe-openai"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Framework:
    """A framework: its distribution, and what its environment needs."""

    package: str
    needs: str


FRAMEWORKS = {
    OURS: Framework("taofold", "taofold[mcp]"),
    "pydantic_ai": Framework(
        "pydantic-ai-harness",
        "'pydantic-ai-slim[openai,mcp]' 'pydantic-ai-harness[skills]>=0.62'",
    ),
    "deepagents": Framework("deepagents", "deepagents langchain-openai"),
    "langchain": Framework("langchain", "langchain langchain-openai"),
    "openai_agents": Framework("openai-agents", "openai-agents"),
}


def printed(*expected):
    """Returns a check: each text is printed, in this order."""

    def check(out, requests):
        rest = out
        for text in expected:
            if text not in rest:
                return f"did not print {text!r}"
            rest = rest[rest.index(text) + len(text) :]
        return ""

    return check


def sent(number, *expected, without=()):
    """Returns a check: the request of this number has these texts, and lacks those."""

    def check(out, requests):
        if len(requests) <= number:
            return f"there are only {len(requests)} requests"
        body = compact(requests[number])
        missing = [text for text in expected if text not in body]
        present = [text for text in without if text in body]
        if missing or present:
            return f"request {number}: lacks {missing}, has {present}"
        return ""

    return check


@dataclass(frozen=True)
class Feature:
    """A task, the model's replies to each framework, and the checks of the outcome."""

    title: str
    scripts: dict[str, list[Say | Call]]
    checks: tuple[Callable[[str, list[dict]], str], ...]
    notes: dict[str, str]
    summary: Say | None = None
    """The reply to a request without tools."""
    own: dict[str, Callable[[str, list[dict]], str]] = field(default_factory=dict)
    """A further check for a framework that promises more."""


STYLE = "Put the total into the first sentence."
SCRIPT = "skills/reports/scripts/total.py"
FILE = "skills/reports/references/style.md"
MAY = Say("May: 6 euros.")
CENTS = "Money is an integer of cents."
BESIDE = "Each module of this folder has a test beside it."
NOTE = "Ada drinks tea at four."
SPENT = [Say("Hello.", tokens=200_000), Say("Hello.")]
SEARCH = [Call("search", {"query": "apples", "limit": 500}), Say("10 pages.")]
ORDERS = [
    Call("transfer_to_billing", {}),
    Call("find_order", {"order": 7}),
    Say("30 euros."),
    Call("find_order", {"order": 8}),
    Say("30 euros too."),
]
PAGES = [*[Call("page", {"number": number}) for number in range(1, 10)], Say("Page 2.")]
SUMMARY = Say("Goal: the page that names a harbour. Page 2 names the harbour of Hull.")
PRICE = Say("It defines PRICE.")

FEATURES = {
    "skills": Feature(
        "Agent Skills: load one, read its file",
        {
            OURS: [
                Call("use_skill", {"skill": "reports"}),
                Call("read_skill_file", {"skill": "reports", "path": "references/style.md"}),
                MAY,
            ],
            "pydantic_ai": [
                Call("load_capability", {"id": "reports"}),
                Call("read_file", {"path": FILE}),
                MAY,
            ],
            "deepagents": [
                Call("read_file", {"file_path": "/skills/reports/SKILL.md"}),
                Call("read_file", {"file_path": f"/{FILE}"}),
                MAY,
            ],
        },
        (printed("May: 6 euros."), sent(1, "Round to full euros."), sent(2, STYLE)),
        {
            "pydantic_ai": "the file tools of the agent read it",
            "deepagents": "file tools, a sub-agent tool and a long prompt come with it",
        },
    ),
    "script": Feature(
        "Agent Skills: run a script",
        {
            OURS: [
                Call("use_skill", {"skill": "reports"}),
                Call(
                    "run_skill_script",
                    {"skill": "reports", "script": "scripts/total.py", "arguments": ["2", "4"]},
                ),
                MAY,
            ],
            "pydantic_ai": [
                Call("load_capability", {"id": "reports"}),
                Call("run_command", {"command": f"python {SCRIPT} 2 4"}),
                MAY,
            ],
        },
        (printed("May: 6 euros."), sent(2, "total 6.0")),
        {
            OURS: "in a container, without network",
            "pydantic_ai": "a shell of the user, not contained; any command",
        },
    ),
    "instructions": Feature(
        "AGENTS.md, also that of a folder entered",
        {
            OURS: [Call("read_file", {"path": "src/price.py"}), PRICE],
            "pydantic_ai": [Call("read_file", {"path": "src/price.py"}), PRICE],
            "deepagents": [Call("read_file", {"file_path": "/src/price.py"}), PRICE],
        },
        (printed("It defines PRICE."), sent(0, CENTS), sent(1, CENTS)),
        {
            OURS: "data; of folders only files that git tracks",
            "pydantic_ai": "instructions; the folder's file is data",
            "deepagents": "instructions; no file of a folder",
        },
        own={OURS: sent(1, BESIDE), "pydantic_ai": sent(1, BESIDE)},
    ),
    "tool_search": Feature(
        "Tool search, MCP server with 120 tools",
        {
            OURS: [
                Call("search_tools", {"query": "get refund"}),
                Call("crm_get_refund", {"id": "R7"}),
                Say("R7 is open."),
            ],
            "pydantic_ai": [
                Call("search_tools", {"queries": ["get refund"]}),
                Call("get_refund", {"id": "R7"}),
                Say("R7 is open."),
            ],
        },
        (printed("R7 is open."), sent(2, "get_refund done for R7")),
        {OURS: "by itself, above 50 tools; 8 found", "pydantic_ai": "on request; 10 found"},
    ),
    "memory": Feature(
        "Memory of two users, on disk",
        {
            OURS: [
                Call("remember", {"text": NOTE}),
                Say("Noted."),
                Say("At four."),
                Say("I do not know."),
            ],
            "pydantic_ai": [
                Call("write_memory", {"content": NOTE}),
                Say("Noted."),
                Say("At four."),
                Say("I do not know."),
            ],
        },
        (
            printed("Noted.", "At four.", "I do not know."),
            sent(2, NOTE),
            sent(3, without=(NOTE,)),
        ),
        {
            OURS: "origin and run of each note; users read, correct, delete",
            "pydantic_ai": "Markdown files; an application may add metadata",
        },
    ),
    "hook": Feature(
        "A hook changes arguments and settings",
        {OURS: SEARCH, "pydantic_ai": SEARCH, "langchain": SEARCH},
        (
            printed("10 pages."),
            sent(0, '_tokens":500'),
            sent(1, "10 pages about apples", '_tokens":500'),
        ),
        {
            OURS: "before and after are in the log; policy judges the changed call",
            "pydantic_ai": "the history has only the arguments of the model",
            "langchain": "the history has only the arguments of the model",
        },
    ),
    "handoff": Feature(
        "A hand-off, and the next message of the session",
        {OURS: ORDERS, "openai_agents": ORDERS},
        (
            printed("30 euros.", "30 euros too."),
            sent(1, "You answer about orders.", without=("Hand questions",)),
            sent(3, "You answer about orders.", "What did order 7 cost?"),
        ),
        {
            OURS: "the last agent goes on by itself; rules of the first agent hold",
            "openai_agents": "the program passes the last agent on",
        },
    ),
    "compaction": Feature(
        "Compaction by a model, 9 pages of 1,350 tokens, window 8,192",
        {OURS: PAGES, "pydantic_ai": PAGES},
        (printed("Page 2."), sent(-1, "Which page names a harbour?", SUMMARY.text)),
        {
            OURS: "near the end of the window; no other bound",
            "pydantic_ai": "at 0.9 of the window, keeps 6 messages",
        },
        summary=SUMMARY,
    ),
    "budgets": Feature(
        "One dollar per user and day",
        {OURS: SPENT, "pydantic_ai": SPENT},
        (printed("ada Hello.", "ada ", "udget", "bob Hello."),),
        {
            OURS: "before a call that may exceed it; kept in the log",
            "pydantic_ai": "after the call that exceeds it; kept in memory or Redis",
        },
    ),
}


@dataclass(frozen=True)
class Row:
    feature: str
    framework: str
    concepts: tuple[str, ...] = ()
    lines: int = 0
    first: int = 0
    tokens: int = 0
    requests: int = 0
    replays: str = "–"
    fault: str = ""


class Tokenizer:
    """Counts tokens in o200k_base; without `bpe-openai` a quarter of the characters."""

    def __init__(self, python):
        self.process = None
        code = (
            "import sys, json, bpe_openai\n"
            "encoding = bpe_openai.get_encoding('o200k_base')\n"
            "for line in sys.stdin:\n"
            "    print(len(encoding.encode(json.loads(line))), flush=True)\n"
        )
        if python is not None and distribution(python, TOKENIZER):
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                [python, "-c", code], stdin=pipe, stdout=pipe, text=True
            )

    @property
    def name(self):
        return "o200k_base" if self.process else "characters / 4"

    def count(self, text):
        if self.process is None:
            return len(text) // 4
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def distribution(python, name):
    """Returns the version of an installed distribution, or ""."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def concepts(path):
    """Returns the names of a program that its reader must look up in the framework.

    These are names that it imports from elsewhere than the standard library, keywords of calls,
    attributes, and methods that it overrides, with their keyword-only parameters.
    """
    tree = ast.parse(path.read_text())
    found, standard, own = set(), set(dir(builtins)), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
            (standard if names <= sys.stdlib_module_names else found).update(names)
        elif isinstance(node, ast.ImportFrom):
            library = node.module.split(".")[0] in sys.stdlib_module_names
            (standard if library else found).update(alias.name for alias in node.names)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            own.add(node.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not of(node.func, standard | own):
            found.update(keyword.arg for keyword in node.keywords if keyword.arg)
        elif isinstance(node, ast.Attribute) and not of(node.value, standard):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef) and any(not of(base, standard) for base in node.bases):
            methods = [part for part in node.body if isinstance(part, FUNCTIONS)]
            found.update(method.name for method in methods)
            found.update(each.arg for method in methods for each in method.args.kwonlyargs)
    plain = {name for kind in (str, dict, list) for name in dir(kind)}
    return tuple(sorted(found - plain))


def of(node, names):
    """Returns whether an expression begins with one of these names."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in names


def lines(path):
    rows = [row.strip() for row in path.read_text().splitlines()]
    return len([row for row in rows if row and not row.startswith("#")])


class Bench:
    def __init__(self, peers, tokenizer):
        self.peers = peers
        self.tokenizer = tokenizer
        self.player = Player(tokenizer.count)
        self.server = serve(self.player)

    def python(self, framework):
        return Path(sys.executable) if framework == OURS else self.peers

    def version(self, framework):
        """Returns the version of an installed framework, or ""."""
        python = self.python(framework)
        return distribution(python, FRAMEWORKS[framework].package) if python is not None else ""

    def run(self, key, framework):
        """Runs one program. Returns its row."""
        feature, path = FEATURES[key], PROGRAMS / framework / f"{key}.py"
        self.player.play(feature.scripts[framework], feature.summary)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "project"
            shutil.copytree(SHARED, folder)
            subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
            subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
            done = self._process([self.python(framework), path.name], folder, path)
            requests = list(self.player.requests)
            faults = list(self.player.faults)
            if done.returncode:
                faults.append(done.stderr.strip()[-500:] or f"exit code {done.returncode}")
            own = [feature.own[framework]] if framework in feature.own else []
            checks = [*feature.checks, *own]
            faults += [fault for check in checks if (fault := check(done.stdout, requests))]
            if left := self.player.script:
                faults.append(f"{len(left)} scripted replies were not asked for")
            replays = self._replayed(folder) if framework == OURS and not faults else "–"
        counts = [self.tokenizer.count(compact(body)) for body in requests]
        return Row(
            key,
            framework,
            concepts(path),
            lines(path),
            counts[0] if counts else 0,
            sum(counts),
            len(counts),
            replays,
            "; ".join(faults),
        )

    def _process(self, command, folder, path=None):
        if path is not None:
            shutil.copy(path, folder)
        home = folder.parent / "home"
        home.mkdir(exist_ok=True)
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {
            "PATH": programs,
            "HOME": str(home),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server.server_address[1]}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "NO_PROXY": "127.0.0.1",
            "TAOFOLD_LOG": "runs.db",
        }
        return subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )

    def _replayed(self, folder):
        """Replays every run of the log. Returns "yes", or the first complaint."""
        taofold = Path(sys.executable).with_name("taofold")
        listed = self._process([taofold, "runs", "list", "--json"], folder)
        self.player.play([])
        runs = [run["id"] for run in json.loads(listed.stdout)]
        for run in runs:
            done = self._process([taofold, "runs", "replay", run], folder)
            if done.returncode or self.player.requests:
                return f"no: {done.stdout or done.stderr}"
        return "yes" if runs else "no run is in the log"


def main():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--only", action="append", default=[], choices=list(FEATURES))
    reader.add_argument("--concepts", action="store_true", help="print the counted names")
    options = reader.parse_args()
    peers = os.environ.get("TAOFOLD_PEERS")
    python = Path(peers).absolute() / "bin" / "python" if peers else None
    tokenizer = Tokenizer(python)
    bench = Bench(python, tokenizer)
    versions = {name: bench.version(name) for name in FRAMEWORKS}
    if missing := [framework for name, framework in FRAMEWORKS.items() if not versions[name]]:
        where = peers or "/tmp/peers"
        print(
            f"skipped: {', '.join(framework.package for framework in missing)}: not installed. "
            f"python -m venv {where} && {where}/bin/pip install {TOKENIZER} "
            f"{' '.join(framework.needs for framework in missing)} && "
            f"export TAOFOLD_PEERS={where}",
            file=sys.stderr,
        )
    rows = [
        bench.run(key, name)
        for key, feature in FEATURES.items()
        for name in feature.scripts
        if versions[name] and (not options.only or key in options.only)
    ]
    tokenizer.close()
    print(table(rows, versions, tokenizer.name))
    if options.concepts:
        for row in rows:
            print(f"\n{row.feature} {row.framework}: {', '.join(row.concepts)}")
    if faults := [row for row in rows if row.fault]:
        for row in faults:
            print(f"failed: {row.feature} {row.framework}: {row.fault}", file=sys.stderr)
        sys.exit(1)


def table(rows, versions, tokenizer):
    names = sorted({row.framework for row in rows}, key=list(FRAMEWORKS).index)
    compared = ", ".join(f"{FRAMEWORKS[name].package} {versions[name]}" for name in names)
    heads = (
        "feature | framework | concepts | lines | tokens, first | tokens, all | requests | replays"
    )
    cells = [f"| {heads} | |", "|---" * 9 + "|"]
    before = ""
    for row in rows:
        feature = FEATURES[row.feature]
        title = feature.title if row.feature != before else ""
        before = row.feature
        note = "failed" if row.fault else feature.notes.get(row.framework, "")
        figures = (len(row.concepts), row.lines, row.first, row.tokens, row.requests)
        counted = " | ".join(f"{figure:,}" for figure in figures)
        package = FRAMEWORKS[row.framework].package
        cells.append(f"| {title} | {package} | {counted} | {row.replays} | {note} |")
    day = time.strftime("%Y-%m-%d")
    return f"{day}: {compared}. Tokens: {tokenizer}.\n\n" + "\n".join(cells)


if __name__ == "__main__":
    main()
