"""Runs the Python suites of other servers with a contestant in the place of their parsers.

The test modules are copied to a scratch folder, without their assertions about prose and ids. Their
imports of the server are replaced by stand-ins whose `extract_tool_calls` and `detect_and_parse`
call the contestant. Their own assertions are the verdict. Used as a pytest plugin: see `run.py`.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import re
import sys
import types
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rows import Reading, equal, names_in, schema

SUITES = {
    "vllm": ("tests/tool_parsers", "tests/tool_use/test_kimi_k3_tool_parser.py",
             "tests/tool_use/test_muse.py", "tests/tool_use/test_muse_glimmer.py",
             "tests/tool_use/mistral"),
    "sglang": ("test/registered/unit/function_call", "test/registered/function_call"),
    "vllm-mlx": ("tests/test_tool_parsers.py", "tests/test_gemma4_tool_parser.py",
                 "tests/test_gpt_oss_tool_parsing.py", "tests/test_minimax_tool_calling.py",
                 "tests/test_step3p5_tool_parser.py"),
    "mlx-lm": ("tests/test_tool_parsing.py",),
    "mlx-vlm": tuple(f"mlx_vlm/tests/test_{name}_tool_parser.py" for name in (
        "atem", "cohere", "gemma4", "pythonic")),
    "lmdeploy": ("tests/test_lmdeploy/serve/parsers",),
    "mlx-openai-server": ("tests/parsers",),
    "xinference": ("xinference/model/llm/tool_parsers/tests",),
    "strands-sglang": ("tests/unit/test_tool_parser.py",),
    "qwen-coder-parser": ("tests/test_parser_unit.py",),
    "vllm-parser": ("tests/parser/engine/conftest.py", "tests/parser/mistral",
                    "tests/parser/cohere", *(f"tests/parser/{name}.py" for name in (
        "test_parse", "test_response_template", "test_harmony", "engine/streaming_helpers",
        "engine/replay_harness", "engine/test_deepseek_v32", "engine/test_deepseek_v4",
        "engine/test_deepseek_v41", "engine/test_gemma4_streaming_reasoning",
        "engine/test_glm47_moe", "engine/test_granite", "engine/test_inkling",
        "engine/test_ling3", "engine/test_minimax_m2", "engine/test_minimax_m3",
        "engine/test_nemotron_v3", "engine/test_plamo3", "engine/test_qwen3",
        "engine/test_seed_oss", "engine/test_step3p5"))),
    "rapid-mlx": tuple(f"tests/test_{name}.py" for name in (
        "deepseek_v3_dedicated_parser", "deepseek_v3_tool_parser", "gemma4_prose_fallback",
        "gemma4_tool_parser", "harmony_parsers", "hy_v3_tool_parser", "lfm_tool_parser",
        "llama_tool_parser_bare_json", "minicpm_tool_parser", "minimax_tool_parser",
        "muse_parsers", "nemotron_tool_parser_fail_open", "tool_call_value_fidelity",
        "tool_parser_content_passthrough", "tool_parser_coverage", "tool_parser_wire_formats",
        "tool_parsers", "vibethinker_function_xml")),
}  # fmt: skip
STANDINS = ("vllm", "sglang", "lmdeploy", "vllm_mlx", "mlx_lm", "mlx", "mlx_vlm", "app",
            "xinference", "strands_sglang", "qwen2_5_coder_tool_parser")  # fmt: skip
STREAMING = ("extract_tool_calls_streaming", "parse_streaming_increment", "stream_chunk",
             "extract_reasoning_streaming", "extract_tool_calls_streaming_incremental",
             "parse_stream_chunk")  # fmt: skip
_PROSE = frozenset({"content", "normal_text", "normal", "remaining", "cleaned", "cleaned_text"})
_PROSE |= {"id", "type", "index", "tool_index", "reasoning", "reasoning_content", "reasoning_text"}


class Stripper(ast.NodeTransformer):
    """Takes away what a suite asserts about prose, ids and types."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.Pass() if self._is_prose(node.test) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        asserts = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if asserts and call.func.attr.startswith("assert"):
            return ast.Pass() if any(map(self._is_prose, call.args[:2])) else node
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "raises":
            node.keywords = [each for each in node.keywords if each.arg != "match"]
        return self.generic_visit(node)

    @staticmethod
    def _is_prose(node: ast.AST) -> bool:
        for each in ast.walk(node):
            name = each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
            if name in _PROSE or name.endswith("_content"):
                return True
        return False


def copy(root: Path, suite: str, scratch: Path) -> None:
    """Copies the modules of a suite."""
    for part in SUITES[suite]:
        source = root / part
        files = sorted(source.rglob("*.py")) if source.is_dir() else [source]
        for path in files:
            if not path.exists() or (path.name == "conftest.py" and source.is_dir()):
                continue
            inner = path.relative_to(root)
            # a suite inside the server's own package would be a stand-in itself
            target = scratch / ("suite" if inner.parts[0] in STANDINS else "") / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            for folder in target.relative_to(scratch).parents:
                if str(folder) != ".":
                    (scratch / folder / "__init__.py").touch()
            if path.name == "__init__.py":
                target.touch()
                continue
            tree = Stripper().visit(ast.parse(path.read_text()))
            target.write_text(ast.unparse(ast.fix_missing_locations(tree)))


class Standin(types.ModuleType):
    """Anything of the server: callable, subscriptable, a base class, a module."""

    def __init__(self, path: str, known: dict[str, Any] | None = None) -> None:
        super().__init__(path)
        self.__dict__.update({"_path": path, "__path__": []} | (known or {}))

    def __getattr__(self, name: str) -> Any:
        if name == "CustomTestCase":
            return unittest.TestCase
        if name in ENTRIES:
            return functools.partial(_asked, ENTRIES[name], _tools_of(self), self._path)
        if name in STREAMING:
            pytest.skip("streaming")
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Standin(f"{self._path}.{name}")

    def __call__(self, *args: Any, **known: Any) -> Any:
        kind = self._path.rpartition(".")[2]
        if args and "name" not in known and kind in ("Function", "FunctionDefinition"):
            known["name"] = args[0]
        offered = next((each for each in args if isinstance(each, list) and _tools_of(each)), None)
        if offered is not None:
            known.setdefault("tools", offered)
        return Standin(self._path, known)

    def __getitem__(self, key: Any) -> Any:
        return Standin(self._path)

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 1

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, value: Any) -> bool:
        return True

    def __contains__(self, value: Any) -> bool:
        return False

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, _Record):
            return other == self
        # an assertion about state that a stand-in lacks is no verdict on a reader
        return self is other or isinstance(other, str | int | None)

    __hash__ = object.__hash__


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in STANDINS or self.last:
            if name.partition(".")[0] in ("pytest", "_pytest", "hypothesis", "conftest", "xdist"):
                return None
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def __init__(self, last: bool = False) -> None:
        self.last = last

    def create_module(self, spec: Any) -> Any:
        return Standin(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


Reader = Callable[[str, dict[str, dict[str, Any]]], Reading]


class State:
    reader: Reader
    readings: list[tuple[str, Reading, dict[str, dict[str, Any]]]] = []
    tools: dict[str, dict[str, Any]] = {}
    impossible = False
    """Whether a call was read that a runtime refuses before it runs."""
    refuses = False
    """Whether such calls are withheld, as a runtime would."""
    module = ""
    """The module whose entry was last asked for."""


STATE = State()


def _tools_of(request: Any) -> dict[str, dict[str, Any]]:
    given = request if isinstance(request, list | tuple) else getattr(request, "tools", None)
    if isinstance(request, dict):
        given = request.get("tools")
    out: dict[str, dict[str, Any]] = {}
    for each in given if isinstance(given, list | tuple) else []:
        function = (
            each.get("function", each)
            if isinstance(each, dict)
            else getattr(each, "function", each)
        )
        get = (
            function.get if isinstance(function, dict) else lambda k, f=function: f.__dict__.get(k)
        )
        if isinstance(get("name"), str):
            parameters = get("parameters")
            out[get("name")] = parameters if isinstance(parameters, dict) else schema()
    return out


def _asked(entry: Any, tools: dict[str, dict[str, Any]], path: str, *args: Any, **k: Any) -> Any:
    """Asks a parser that was made for some tools."""
    STATE.tools = tools
    STATE.module = path.rpartition(".")[2]
    return entry(*args, **k)


def _read(text: Any, request: Any = None) -> Reading:
    if not isinstance(text, str) or "<module '" in text:
        pytest.skip("not a text, or made with a constant of the server")
    declared = _tools_of(request)
    tools = declared or {name: schema() for name in names_in(text)} | STATE.tools
    reading = STATE.reader(text, tools)
    declared = declared or STATE.tools
    possible = [call for call in reading.calls if not declared or _is_possible(declared, *call)]
    if len(possible) < len(reading.calls):
        STATE.impossible = True
        if STATE.refuses:  # a runtime runs the others of a batch
            reading = Reading(possible, "calls" if possible else "refused", reading.marked)
    STATE.readings.append((text, reading, tools))
    return reading


_TYPES: dict[str, Any] = {"string": str, "array": list, "object": dict, "boolean": bool,
                          "integer": int, "number": (int, float)}  # fmt: skip


def _is_possible(tools: dict[str, dict[str, Any]], name: str, arguments: Any) -> bool:
    """Returns whether a runtime has the tool and accepts the arguments."""
    if name not in tools or not set(tools[name].get("required") or ()) <= set(arguments or ()):
        return False
    declared = tools[name].get("properties") or {}
    return all(
        isinstance(value, _TYPES.get(str((declared.get(key) or {}).get("type")), object))
        for key, value in (arguments or {}).items()
    )


class _Arguments(str):
    """The text of arguments; equal to any other text of the same JSON."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):  # some servers hand out the value, some its text
            return equal(other, _decoded(str(self)))
        if not isinstance(other, str):
            return NotImplemented
        return str.__eq__(self, other) or equal(_decoded(str(self)), _decoded(str(other)))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __getitem__(self, key: Any) -> Any:
        return _decoded(str(self))[key] if isinstance(key, str) else str.__getitem__(self, key)


def _encoded(arguments: Any) -> _Arguments:
    return _Arguments(json.dumps(arguments, ensure_ascii=False))


class _Record(types.SimpleNamespace):
    """A call in the suites' form; equal to one with the same tool and arguments."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, _Record):
            return self.__dict__ == other.__dict__
        known = getattr(other, "__dict__", other if isinstance(other, dict) else {})
        inner = known.get("function")
        if inner is not None:
            return _Record.__eq__(self, inner)
        if known.get("name") != self.__dict__.get("name"):
            return False
        wanted = known.get("arguments", known.get("parameters"))
        given = self.__dict__.get("arguments", self.__dict__.get("parameters"))
        return equal(_decoded(wanted), _decoded(given))

    def __getitem__(self, key: Any) -> Any:
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key, default)

    def __contains__(self, key: str) -> bool:
        return hasattr(self, key)

    def model_dump(self, **_: Any) -> Any:
        return json.loads(json.dumps(self, default=vars))

    def model_dump_json(self, **_: Any) -> Any:
        return json.dumps(self, default=vars)


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _function_calls(reading: Reading) -> list[Any]:
    return [
        _Record(
            id=f"call_{number}", type="function", index=number,
            function=_Record(name=name, arguments=_encoded(arguments)),
            name=name, arguments=_encoded(arguments),
        )
        for number, (name, arguments) in enumerate(reading.calls)
    ]  # fmt: skip


def extract_tool_calls(model_output: Any = None, request: Any = None, *_: Any, **known: Any) -> Any:
    reading = _read(model_output or known.get("text"), request)
    calls = _function_calls(reading)
    return _Record(tools_called=bool(calls), tool_calls=calls, content=None)


def detect_and_parse(text: Any, tools: Any = None, **_: Any) -> Any:
    reading = _read(text, tools)
    calls = [
        _Record(tool_index=i, name=n, parameters=_encoded(a))
        for i, (n, a) in enumerate(reading.calls)
    ]
    return _Record(normal_text="", calls=calls)


def parse_non_stream(text: Any, tools: Any = None) -> Any:
    return "", detect_and_parse(text, tools).calls


_CUT_OFF = {"gemma4": ("<|tool_call>", "<tool_call|>")}
"""Marks at which a server cuts the parser's input, if the rest does not identify the family."""


class _Single(dict[str, Any]):
    """A call in the MLX servers' form: equal to a list of it alone, with any id."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> bool:
        only = other[0] if isinstance(other, list) and len(other) == 1 else other
        known = {key: only.get(key) for key in self} if isinstance(only, dict) else only
        return dict.__eq__(self, known)


def parse_tool_call(text: Any, tools: Any = None) -> Any:
    opener, closer = _CUT_OFF.get(STATE.module, ("", ""))
    reading = _read(text if opener in text else f"{opener}{text}{closer}", tools)
    calls = [_Record(name=n, arguments=a) for n, a in reading.calls]
    plain = [_Single(name=n, arguments=_encoded(a)) for n, a in reading.calls]
    if not calls:
        raise ValueError("no call")
    return plain[0] if len(plain) == 1 else plain


def parse_complete(text: Any = None, *_: Any, **known: Any) -> Any:
    calls = _function_calls(_read(text))
    return None, calls or None, None


def parse_tool_call_complete(payload: Any) -> Any:
    """Reads what stood between the marks that the server has cut off."""
    calls = _function_calls(_read(f"<tool_call>{payload}</tool_call>"))
    return calls[0] if len(calls) == 1 else None


class _Triples(list[Any]):
    """Calls as (text, name, arguments). A text without any call is one triple of its own."""

    def __eq__(self, other: Any) -> bool:
        wanted = [each[1:] for each in other if each[1] is not None]
        given = [each[1:] for each in self if each[1] is not None]
        return equal([list(each) for each in wanted], [list(each) for each in given])


def extract_triples(text: Any, *_: Any, **known: Any) -> Any:
    calls = _read(text).calls
    return _Triples([(None, *call) for call in calls] or [(text, None, None)])


def extract_plain(text: Any, *_: Any, **known: Any) -> Any:
    calls = [{"name": name, "arguments": _encoded(given)} for name, given in _read(text).calls]
    return {"content": None, "tool_calls": calls or None}


def parse_results(text: Any, *_: Any, **known: Any) -> Any:
    """Returns calls with their input. A refused one is an error, as in the suite."""
    reading = _read(text)
    if reading.kind == "refused" and text:
        return [_Record(name=_Unjudged(), input={}, is_error=True, raw=_Unjudged())]
    return [_Record(name=n, input=a, is_error=False, raw=None) for n, a in reading.calls]


class _Unjudged:
    """Reasoning and prose, which are not compared: equal to every value of a suite."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> bool:
        return True


def parse_with_reasoning(text: Any = None, request: Any = None, *_: Any, **known: Any) -> Any:
    calls = _function_calls(_read(text, request))
    return _Unjudged(), _Unjudged(), calls or None


def extract_reasoning(*_: Any, **known: Any) -> Any:
    return _Unjudged(), _Unjudged()


ENTRIES: dict[str, Any] = {
    "extract_reasoning": extract_reasoning,
    "parse_complete": parse_complete,
    "parse_tool_call_complete": parse_tool_call_complete,
    "extract_tool_calls": extract_tool_calls,
    "detect_and_parse": detect_and_parse,
    "parse_non_stream": parse_non_stream,
    "parse_tool_call": parse_tool_call,
}
OWN_ENTRIES: dict[str, dict[str, Any]] = {
    "xinference": {"extract_tool_calls": extract_triples},
    "vllm-parser": {"parse": parse_with_reasoning},
    "mlx-openai-server": {"extract_tool_calls": extract_plain},
    "strands-sglang": {"parse": parse_results},
}
"""Entries that are called otherwise in one suite, or whose names mean something else elsewhere."""

# ------------------------------------------------------------------ the plugin


def pytest_configure(config: Any) -> None:
    from contestants import READERS

    sys.meta_path.insert(0, Finder())
    sys.meta_path.append(Finder(last=True))
    STATE.reader = READERS[os.environ["CONTESTANT"]]()
    ENTRIES.update(OWN_ENTRIES.get(os.environ["SUITE"], {}))
    config.addinivalue_line("markers", "slow_test: of the suite")


def _kept(item: Any) -> Any:
    """Stores the exception of a `unittest.TestCase`, because pytest keeps it from the caller."""
    kept = getattr(item, "_excinfo", None)
    return (kept[0].type, kept[0].value) if kept else None


def _again(item: Any) -> Any:
    """Runs a test once more, without the calls that a runtime refuses."""
    STATE.readings = []
    STATE.refuses = True
    if hasattr(item, "_excinfo"):
        item._excinfo = None
    try:
        item.runtest()
    except Exception as error:
        return type(error), error
    return _kept(item)


_INSIDE = r"to have been called|Standin|<module '|no attribute '(?:type|value)'"


def _looks_inside(error: Any) -> bool:
    """Returns whether a test inspects the server: its calls, events or pieces."""
    return re.search(_INSIDE, str(error[1])) is not None


def _streams(function: Any) -> bool:
    """Returns whether a test itself feeds a parser piece by piece."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return False
    # `simulate_tool_streaming(parser, …)`: by a function of the suite.
    by_helper = re.search(r"(?<!def )\b(?!\w*non_)\w+_streaming\(", source)
    return bool(by_helper) or any(f".{name}(" in source for name in STREAMING)


@pytest.fixture
def default_tokenizer() -> Any:
    return Standin("tokenizer")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    STATE.readings = []
    STATE.tools = {}
    STATE.impossible = STATE.refuses = False
    outcome = yield
    error = outcome.excinfo or _kept(item)
    # Some suites hand through what a runtime refuses, others refuse it themselves: a call that
    # cannot run is right for both.
    if error and (error[0].__name__ in ("Skipped", "XFailed") or _looks_inside(error)):
        return
    if error and STATE.impossible:
        error = _again(item)
    if not STATE.readings or (error and _looks_inside(error)):
        return
    name = item.name.partition("[")[0]
    if "streaming" in name and not re.search(r"non_?streaming|no_streaming|without_str", name):
        return  # it compares with deltas, which no contestant makes
    if _streams(item.function):
        return  # so does this one: were it only counted when it fails before, it could not pass
    line = {
        "id": item.nodeid, "passed": error is None,
        "error": None if error is None else f"{error[0].__name__}: {error[1]}"[:300],
        "xfail": item.get_closest_marker("xfail") is not None,
        "readings": [
            {"text": t, "kind": r.kind, "marked": r.marked, "calls": r.calls, "tools": o}
            for t, r, o in STATE.readings
        ],
    }  # fmt: skip
    with open(os.environ["RESULTS"], "a", encoding="utf-8") as out:
        out.write(json.dumps(line, default=str) + "\n")


def verdict_of(line: dict[str, Any]) -> str:
    """Returns the verdict, as `rows.verdict`, from the result of a suite's test."""
    if line["passed"]:
        return "right"
    # A test stops at the first thing that fails: what it read last.
    last = line["readings"][-1]
    if last["kind"] == "calls":
        return "marked" if last["marked"] else "wrong"
    return "prose" if last["kind"] == "prose" else "missed"
