"""Translates one node of The Edge Agent. `graph` decides which node follows.

A node becomes one of ours, or several in a row: an interrupt after it is a node that asks for
approval. The first of them keeps the name, so that edges lead to it.
"""

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from taofold.core.json_values import is_array, is_object
from taofold.files.actions import canonical
from taofold.files.checked_yaml import KeyPath
from taofold.files.edge_agent.interrupts import Interrupts, Waits
from taofold.files.edge_agent.made import MOST_NODES, Findings, Made
from taofold.files.edge_agent.models import model_keys
from taofold.files.edge_agent.texts import TemplateTexts, bare
from taofold.files.edge_agent.unsupported import LANGUAGES, NODE_KEYS
from taofold.files.expressions.template import is_template
from taofold.tools.python_code import MOST_CHARS, NotPython, read_python

Raw: TypeAlias = Mapping[str, Any]
"""A mapping of the file."""
Names: TypeAlias = Mapping[str, str]
"""Local names in templates, with what they are called here."""
PYTHON: Final = "python.run"
"""The action that runs Python."""
ALIASES: Final = {
    "llm.chat": "llm.call",
    "llm.stream": "llm.call",
    "memory.retrieve": "memory.recall",
}
"""Actions and tools that have another name here."""
_PARTS: Final = frozenset(
    {
        *("content", "usage", "answer", "thinking", "output", "steps", "final_answer"),
        *("tool_calls", "tool_results", "sub_problems", "sub_answers", "improvement_history"),
    }
)
"""Parts that the values of actions have in any case."""
_REPLYING: Final = ("llm.call", "llm.tools", "memory.store", "memory.recall")
"""Actions whose value is the original's mapping with `reply: true`."""
RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "http.get": {"timeout": "timeout_s"},
    "reason.dspy.cot": {"question": "problem"},
    "reason.dspy.compile": {"trainset": "training_data", "teleprompter_config": "options"},
    "reason.dspy.optimize": {"trainset": "training_data", "teleprompter_config": "options"},
}
"""Keys of actions that have another name here."""
_GOING_ON: Final = frozenset({"reason.dspy.compile", "reason.dspy.optimize"})
"""Actions whose failure is a value (`compiled: false`, `error`), which the flow reads."""
_SETTINGS: Final = frozenset(
    {"model", "provider", "generator_model", "critic_model", "planner_model", "evaluator_model"}
)
_OWN: Final = frozenset({"description", "approve", "set", "while", "parallel", "merge", "if"})
"""Keys of ours, which pass as they are."""
_CONTROL: Final = frozenset(
    {"name", "goto", "next", "paths", "fan_in", "interrupt", "interrupt_before", "interrupt_after"}
)
_TOP_ONLY: Final = ("goto", "next", "paths", "fan_in")
"""Keys of nodes of the file's top, which have edges."""
_PATH: Final = re.compile(r"\{\{\s*(?:result|action_result)((?:\.[A-Za-z0-9_]+)*)\s*\}\}")
_CONSTANT: Final = re.compile(r"\{\{\s*variables\.(\w+)\s*(?:\|\s*\w+\s*(?:\([^()]*\))?\s*)?\}\}")
_DOLLAR: Final = re.compile(r"\$\{(\w+)\}")
_IN_CODE: Final = re.compile(r"\{\{\s*(state|secrets|env)\b")
_LUA: Final = re.compile(r"\blocal\s+\w+|\bthen\b|\belseif\b|\bend\s*$", re.MULTILINE)
_DEEPEST: Final = 8
_MOST_INSERTED: Final = 1_000_000
"""Maximum number of characters of constants in the code of one file."""


@dataclass(frozen=True, slots=True)
class Written:
    """A node of the source.

    `names` are the local names in its templates, `depth` is the number of nodes around it.
    """

    raw: Raw
    path: KeyPath
    names: Names
    depth: int = 0

    def at(self, *keys: str) -> KeyPath:
        """Returns the place of a key of the node."""
        return (*self.path, *keys)


class NodeTranslator:
    """Translates the nodes of one file, with names that are unique in it."""

    def __init__(
        self,
        findings: Findings,
        texts: TemplateTexts,
        variables: Mapping[str, Any],
        interrupts: Interrupts,
    ) -> None:
        self.findings, self.texts, self.variables = findings, texts, variables
        self.interrupts = interrupts
        self.constants: dict[str, str | None] = {}
        """The texts of the constants that code has read."""
        self.inserted = 0
        """The number of characters of constants in all code."""
        self.taken: set[str] = set()
        self.numbers: Counter[str] = Counter()

    def name(self, written: object, default: str) -> str:
        """Returns a name that our form accepts and that no other node has."""
        text = re.sub(r"[^A-Za-z0-9_-]+", "_", str(written or default)).strip("_")[:50]
        base = text if text[:1].isalpha() else f"node_{text}"
        base = f"{base}_node" if base in ("end", "__end__") else base
        name = base
        while name in self.taken:
            self.numbers[base] += 1
            name = f"{base}_{self.numbers[base] + 1}"
        self.taken.add(name)
        return name

    def translate(self, source: Written, name: str) -> Made:
        """Returns the node under its `name` here, without its `goto`, approvals and interrupts."""
        node = Made(source.path, {"name": name})
        node.places["name"] = source.at("name")
        for key in source.raw:
            self._extra(node, key, source)
        if source.depth > _DEEPEST:
            self.findings.refuse(source.path, "is nested too deep")
            return node
        self._work(node, source)
        self._errors(node, source)
        return node

    def approvals(self, node: Made, title: str, waits: Waits) -> list[Made]:
        """Lets the node wait before it runs. Returns the nodes that wait after it."""
        if waits.before is not None and not node.get("approve"):
            node.put("approve", True, waits.before)
        if waits.after is None:
            return []
        review = Made(waits.after, {"name": self.name(f"{title}_review", "review"), "set": {}})
        review.put("approve", f"{title} is done: continue?", waits.after)
        return [review]

    def inside(self, source: Written, name: str) -> list[Made]:
        """Returns a node inside another one, and the nodes that wait after it."""
        for key in _TOP_ONLY:
            if source.raw.get(key) is not None and source.raw[key] is not False:
                self.findings.refuse(
                    source.at(key),
                    f"{key!r} of a node inside another node is not translated",
                    "write `condition` at the nodes, or move them to 'nodes' of the file",
                )
        node = self.translate(source, name)
        waits = self.interrupts.of(source.raw, source.path, "")
        return [node, *self.approvals(node, name, waits)]

    def _extra(self, node: Made, key: str, source: Written) -> None:
        """Takes over the keys that do not define the work."""
        value, path = source.raw[key], source.at(key)
        if key in NODE_KEYS:
            self.findings.refuse(path, f"{key!r} is no key of a node", NODE_KEYS[key])
        elif key == "timeout":
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                node.put(key, value, path)
            elif value is not None:
                self.findings.refuse(path, f"must be a number of seconds above 0, not {value!r}")
        elif key in _OWN:
            node.put(key, self.values(value, path, source.names), path)
        elif key not in _KNOWN and not key.startswith("_"):
            # The compiler reports it, with the keys that a node has.
            node.put(key, value, path)

    def _work(self, node: Made, source: Written) -> None:
        raw = source.raw
        type_ = str(raw["type"]) if raw.get("type") is not None else ""
        self._unread(source, _read(raw, type_))
        if "condition" in raw and "paths" not in raw and type_ != "while_loop":
            if "if" in raw:
                self.findings.refuse(source.at("if"), "stands beside 'condition'", "write one")
            node.put(
                "if",
                self.texts.condition(raw["condition"], source.at("condition"), source.names),
                source.at("condition"),
            )
        if type_ in _LOOPS:
            getattr(self, _LOOPS[type_])(node, source)
        elif "parallel_each" in raw:
            self._parallel_each(node, source)
        elif _matrix(raw) is not None:
            self._matrix(node, source)
        elif type_ not in ("", "node", "run", "action", "conditional"):
            self.findings.refuse(source.at("type"), f"there is no node of type {type_!r}")
            node["set"] = {}
        else:
            self._single(node, source)

    def _unread(self, source: Written, read: frozenset[str]) -> None:
        """Refuses keys that say what a node does, but that this node does not read."""
        for key, value in source.raw.items():
            python = key == "language" and value == "python"
            if key in _DOING - read and value is not None and not python:
                self.findings.refuse(
                    source.at(key),
                    f"{key!r} has no effect at this node",
                    "a node does one thing; let several nodes follow each other",
                )

    def _single(self, node: Made, source: Written) -> None:
        """Translates what one execution of the node does."""
        raw = source.raw
        if code := _first(raw, _CODE):
            self._run(node, source, code)
        elif action_key := _action(raw):
            self._uses(node, source, action_key)
        elif is_array(raw.get("steps")) and "while" not in raw and "parallel" not in raw:
            node.put("steps", self.several(source, "steps"), source.at("steps"))
        elif "steps" in raw:
            node.put("steps", raw["steps"], source.at("steps"))
        elif not any(key in raw for key in ("set", "while", "parallel")):
            node["set"] = {}

    def several(self, source: Written, key: str) -> list[Any]:
        """Translates the nodes under `key`, which run one after another inside the node."""
        raw, path = source.raw.get(key), source.at(key)
        if not is_array(raw):
            self.findings.refuse(path, "must be a list of nodes")
            return []
        if len(raw) > MOST_NODES:
            self.findings.refuse(path, f"has {len(raw)} nodes; at most {MOST_NODES} are read")
            return []
        nodes: list[Any] = []
        for index, entry in enumerate(raw):
            where = (*path, index)
            if not is_object(entry):
                self.findings.refuse(where, "must be a mapping: a node")
                continue
            name = self.name(entry.get("name"), f"step_{index + 1}")
            nodes += self.inside(Written(entry, where, source.names, source.depth + 1), name)
        return nodes

    def _run(self, node: Made, source: Written, key: str) -> None:
        written, where = source.raw[key], source.at(key)
        language = str(source.raw.get("language") or "python")
        if is_object(written):
            kind = written.get("type", "python")
            if kind == "expression":
                name = str(written.get("output_key") or "result")
                test = self.texts.condition(written.get("value"), (*where, "value"), source.names)
                node.put("set", {name: f"{{{{ {test} }}}}"}, where)
                return
            language, written, where = str(kind), written.get("code"), (*where, "code")
        if not isinstance(written, str):
            self.findings.refuse(where, f"must be Python code, not {type(written).__name__}")
            node["set"] = {}
            return
        code = written
        language = detected(code, language)
        if language != "python":
            what = f"code in {language.capitalize()} is not run"
            self.findings.refuse(where, what, LANGUAGES.get(language, "rewrite it in Python"))
            node["set"] = {}
            return
        self.code(node, code, where)

    def code(self, node: Made, code: str, where: KeyPath) -> None:
        """Makes the node run Python and merge the mapping that it returns."""
        if match := _IN_CODE.search(code):
            self.findings.refuse(
                where,
                f"a value of {match[1]!r} cannot become code",
                "read state['NAME'] in the code instead of a template",
            )
        for read, line in object_reads(code):
            text = f"line {line} of the code: a result of parallel work is a mapping here: {read}"
            self.findings.note(where, text)
        node.put("uses", PYTHON, where)
        keys = Made(where)
        keys.put("code", self._constants(code, where), where)
        if _changes_state(keys["code"]):
            # The original's code works on the state itself.
            keys["changes"] = True
        if re.search(r"\bparallel_results\b", code):
            keys["names"] = {"parallel_results": '{{ get(state, "parallel_results", []) }}'}
        node.put("with", keys, where)
        node.put("merge", True, where)

    def _constants(self, code: str, where: KeyPath) -> str:
        """Returns the code with the file's own constants inserted, as The Edge Agent does."""
        for pattern in (_CONSTANT, _DOLLAR):
            parts: list[str] = []
            position = added = 0
            for match in pattern.finditer(code):
                text = self._constant(match[1])
                if text is None:
                    continue
                added += len(text)
                # Before the text is built: few characters of a file can mean very many of code.
                if added > MOST_CHARS or self.inserted + added > _MOST_INSERTED:
                    most = MOST_CHARS if added > MOST_CHARS else _MOST_INSERTED
                    what = f"its constants have more than {most} characters"
                    self.findings.refuse(where, what, "read state['NAME'] in the code instead")
                    return ""
                parts += [code[position : match.start()], text]
                position = match.end()
            self.inserted += added
            code = "".join([*parts, code[position:]])
        return code

    def _constant(self, name: str) -> str | None:
        """Returns the text of a constant of the file, None without a plain one."""
        if name not in self.constants:
            value = self.variables.get(name)
            plain = isinstance(value, str | int | float) and not _is_huge(value)
            text = str(value) if plain else None
            self.constants[name] = None if text is None or is_template(text) else text
        return self.constants[name]

    def _uses(self, node: Made, source: Written, key: str) -> None:
        raw = source.raw
        action = ALIASES.get(canonical(str(raw[key])), str(raw[key]))
        node.put("uses", action, source.at(key))
        params = _first(raw, _PARAMS)
        given: Any = raw.get(params) if params else None
        where = source.at(params) if params else source.path
        if given is not None and not is_object(given):
            node.put("with", given, where)
        elif given:
            keys = Made(where)
            renamed = RENAMED.get(canonical(action), {})
            for written, value in given.items():
                # A key of both names keeps the value of its own name.
                name = written if renamed.get(written) in given else renamed.get(written, written)
                place = (*where, written)
                keys.put(name, self.values(value, place, source.names, name), place)
            if canonical(action) in _REPLYING:
                keys.setdefault("reply", True)
            if action.startswith(("llm.", "reason.")):
                model_keys(keys, node, self.findings)
            if is_array(keys.get("tools")):
                keys["tools"] = [
                    ALIASES.get(tool, tool) if isinstance(tool, str) else tool
                    for tool in keys["tools"]
                ]
            node.put("with", keys, where)
        if canonical(action) in _GOING_ON:
            node.setdefault("on_error", {"then": "continue"})
        self._output(node, source)

    def _output(self, node: Made, source: Written) -> None:
        raw = source.raw
        key = next((k for k in ("output", "outputs", "output_key") if raw.get(k)), "")
        if not key:
            node["merge"] = True
        elif not is_object(raw[key]):
            node.put("output", raw[key], source.at(key))
        else:
            outputs = Made(source.at(key))
            for name, part in raw[key].items():
                where = source.at(key, name)
                outputs.put(name, self.part(part, where, source.names), where)
            node.put("output", outputs, source.at(key))

    def part(self, part: Any, path: KeyPath, names: Names) -> str:
        """Returns a part of a value as `output` writes it: a path, or a template."""
        if isinstance(part, str) and (match := _PATH.fullmatch(part.strip())):
            inner = match[1].removeprefix(".")
            if not inner or inner.split(".")[0] in _PARTS:
                return inner or "."
            if "." not in inner:
                # A part that only the original's value has is null there, too.
                return f'{{{{ get(result, "{inner}") }}}}'
        if isinstance(part, str) and is_template(part):
            return self.texts.template(part, path, names)
        return f"{{{{ {_literal(part)} }}}}"

    def values(self, value: Any, path: KeyPath, names: Names, key: str = "") -> Any:
        """Returns a value with its templates rewritten."""
        if isinstance(value, str):
            return self.texts.template(value, path, names, setting=key in _SETTINGS)
        if is_object(value):
            return {k: self.values(v, (*path, str(k)), names) for k, v in value.items()}
        if is_array(value):
            return [self.values(v, (*path, index), names) for index, v in enumerate(value)]
        return value

    def _while(self, node: Made, source: Written) -> None:
        raw = source.raw
        loop = Made(source.path)
        test = self.texts.condition(raw.get("condition"), source.at("condition"), source.names)
        loop.put("condition", test, source.at("condition"))
        if "max_iterations" in raw:
            loop.put("max_iterations", raw["max_iterations"], source.at("max_iterations"))
        node.put("while", loop, source.at("type"))
        body = _first(raw, _BODIES) or "body"
        node.put("steps", self.several(source, body), source.at(body))
        node["output"] = Made(source.path)

    def _dynamic(self, node: Made, source: Written) -> None:
        raw = source.raw
        item, index = str(raw.get("item_var") or "item"), str(raw.get("index_var") or "index")
        options = raw.get("parallel_config")
        nested: Mapping[str, Any] = options if is_object(options) else {}
        limits = {**nested, **{k: raw[k] for k in ("max_concurrency", "fail_fast") if k in raw}}
        local = replace(source, names={**source.names, item: item, index: "index"})
        spread = self._spread(node, source, "items", item, limits)
        steps: list[Any] = [self._named(node, source.path, {item: item, index: "index"})]
        action = raw.get("action")
        if is_object(action):
            inner = replace(local, raw=action, path=source.at("action"), depth=source.depth + 1)
            steps += self.inside(inner, self.name(f"{node['name']}_each", "each"))
        elif "subgraph" in raw:
            self.findings.refuse(
                source.at("subgraph"),
                "'subgraph' is not translated",
                "write `imports: [{path: FILE, namespace: NAME}]` and "
                "`uses: flow.NAME` beside `parallel`",
            )
        else:
            steps += self.several(local, "steps")
        self._branches(node, spread, steps, source)

    def _parallel_each(self, node: Made, source: Written) -> None:
        raw = source.raw
        limits = {"max_concurrency": raw["max_workers"]} if "max_workers" in raw else {}
        spread = self._spread(node, source, "parallel_each", "item", limits)
        local = replace(source, names={**source.names, "item_index": "index"})
        steps: list[Any] = [
            self._named(node, source.path, {"item": "item", "item_index": "index"}),
            self._once(node, local),
        ]
        self._branches(node, spread, steps, source)

    def _matrix(self, node: Made, source: Written) -> None:
        raw, where = source.raw, source.at("strategy", "matrix")
        combinations: list[dict[str, Any]] = [{}]
        for key, values in (_matrix(raw) or {}).items():
            if not is_array(values) or not values or len(combinations) * len(values) > 1000:
                self.findings.refuse((*where, key), "must be a list of 1 to 1000 values")
                continue
            combinations = [{**one, str(key): value} for one in combinations for value in values]
        strategy: Mapping[str, Any] = raw["strategy"]
        limits = {"fail_fast": strategy["fail_fast"]} if "fail_fast" in strategy else {}
        if "max_parallel" in strategy:
            limits["max_concurrency"] = strategy["max_parallel"]
        spread = Made(where, {"items": combinations, "as": "matrix", **limits})
        node.put("parallel", spread, where)
        steps: list[Any] = [
            self._named(node, source.path, {"matrix": "matrix"}),
            self._once(node, source),
        ]
        self._branches(node, spread, steps, source)

    def _once(self, node: Made, source: Written) -> Made:
        """Returns the work of a fan-out node as a node of a branch."""
        each = Made(source.path, {"name": self.name(f"{node['name']}_each", "each")})
        work = {
            key: value for key, value in source.raw.items() if key not in ("output", "output_key")
        }
        self._single(each, replace(source, raw=work, depth=source.depth + 1))
        return each

    def _spread(
        self, node: Made, source: Written, key: str, item: str, limits: Mapping[str, Any]
    ) -> Made:
        raw, where = source.raw, source.at(key)
        spread = Made(source.path)
        spread.put("items", self.values(raw.get(key), where, source.names), where)
        spread.put("as", item, source.at("item_var") if "item_var" in raw else where)
        for name, value in limits.items():
            if name == "max_concurrency" and isinstance(value, str):
                # A setting: a constant of the file, or nothing.
                value = self.variables.get(str(bare(value)).removeprefix("variables."), 8)
            if name in ("max_concurrency", "fail_fast") and value is not None:
                spread.put(name, value, source.at(name) if name in raw else source.path)
        node.put("parallel", spread, where)
        return spread

    def _named(self, node: Made, path: KeyPath, names: Names) -> Made:
        """Returns the first node of a branch, which puts the local names into its state."""
        name = self.name(f"{node['name']}_item", "item")
        values: dict[str, Any] = {v: f"{{{{ {local} }}}}" for v, local in names.items()}
        # Otherwise the results of an earlier fan-out would be in each result of this one.
        return Made(path, {"name": name, "set": {**values, "parallel_results": []}})

    def _branches(self, node: Made, spread: Made, steps: list[Any], source: Written) -> None:
        """Completes a fan-out. Each branch's result has its whole state, as the original has."""
        node["steps"] = steps
        spread["result"] = {"branch": "{{ index }}", "success": True, "state": "{{ state }}"}
        outputs = Made(source.path, {"parallel_results": "."})
        if isinstance(source.raw.get("output"), str):
            outputs.put(str(source.raw["output"]), ".", source.at("output"))
        node["output"] = outputs
        # The original goes on with the results, also after a failure.
        node["on_error"] = {"then": "continue"}

    def _errors(self, node: Made, source: Written) -> None:
        rule, where = source.raw.get("on_error"), source.at("on_error")
        if not is_object(rule):
            if "on_error" in source.raw:
                node.put("on_error", rule, where)
            return
        ours = Made(where, {k: rule[k] for k in ("retry", "then", "fallback") if k in rule})
        mode = rule.get("mode")
        if mode == "retry" or "max_retries" in rule:
            retry = Made(where)
            retry.put("max", rule.get("max_retries", 3), (*where, "max_retries"))
            for theirs, key in (("retry_delay", "backoff"), ("backoff_multiplier", "factor")):
                if theirs in rule:
                    number = rule[theirs]
                    value = float(number) if isinstance(number, int) else number
                    retry.put(key, value, (*where, theirs))
            ours["retry"] = retry
        if mode == "graceful" and "fallback" not in rule:
            ours["then"] = "continue"
        known = {"mode", "max_retries", "retry_delay", "backoff_multiplier", "capture_traceback"}
        known |= {"retry", "then", "fallback"}
        for key in rule:
            if key not in known:
                self.findings.refuse((*where, key), f"{key!r} of on_error is not there")
        node.put("on_error", ours, where)


_LOOPS: Final = {"while_loop": "_while", "dynamic_parallel": "_dynamic"}
"""Types of nodes with a body, and the method that translates each."""
_KNOWN: Final = _CONTROL | {
    *("run", "script", "language", "uses", "action", "with", "params", "config"),
    *("output", "outputs", "output_key", "condition", "type", "steps", "body", "max_iterations"),
    *("items", "item_var", "index_var", "max_concurrency", "fail_fast", "parallel_config"),
    *("subgraph", "input", "strategy", "parallel_each", "max_workers", "on_error", "timeout"),
}


_DOING: Final = (_KNOWN | {"while", "parallel"}) - (
    _CONTROL | {"type", "condition", "on_error", "timeout", "output", "outputs", "output_key"}
)
"""Keys that say what a node does."""
_CODE: Final = ("run", "script")
_PARAMS: Final = ("with", "params", "config")
_BODIES: Final = ("body", "steps")
_FAN: Final = frozenset(
    {"items", "item_var", "index_var", "max_concurrency", "fail_fast", "parallel_config", "input"}
)


def _is_huge(value: float | str) -> bool:
    # Python writes no longer integers.
    return isinstance(value, int) and value.bit_length() > 10_000


def _first(raw: Raw, keys: Sequence[str]) -> str:
    return next((key for key in keys if key in raw), "")


def _action(raw: Raw) -> str:
    return next((key for key in ("uses", "action") if isinstance(raw.get(key), str)), "")


def _read(raw: Raw, type_: str) -> frozenset[str]:
    """Returns the keys that the translation of a node's work reads."""
    if type_ == "while_loop":
        return frozenset({"max_iterations", _first(raw, _BODIES)})
    if type_ == "dynamic_parallel":
        steps = "subgraph" if "subgraph" in raw else "steps"
        return _FAN | {"action" if is_object(raw.get("action")) else steps}
    if "parallel_each" in raw:
        around = frozenset({"parallel_each", "max_workers"})
    else:
        around = frozenset({"strategy"} if _matrix(raw) is not None else {"while", "parallel"})
    if code := _first(raw, _CODE):
        return around | {code, "language"}
    if action := _action(raw):
        return around | {action, _first(raw, _PARAMS)}
    return around | {"steps"}


def _matrix(raw: Raw) -> Mapping[str, Any] | None:
    strategy = raw.get("strategy")
    matrix = strategy.get("matrix") if is_object(strategy) else None
    return matrix if is_object(matrix) else None


def _literal(value: Any) -> str:
    """Returns a constant as an expression."""
    words = {True: "true", False: "false", None: "none"}
    if value is None or isinstance(value, bool):
        return words[value]
    return json.dumps(value)


def detected(code: str, language: str) -> str:
    """Returns the language of a node's code. `language` is the one that the file declares."""
    first = code.lstrip().lower()
    for marker, name in (("--", "lua"), ("%", "prolog")):
        if first.startswith((f"{marker} {name}", f"{marker}{name}")):
            return name
    if language != "python" or _is_python(code):
        return language
    if ":-" in code or "?-" in code:
        return "prolog"
    return "lua" if _LUA.search(code) else "python"


_RESULTS: Final = "parallel_results"
_RESULT_KEYS: Final = frozenset({"branch", "success", "state"})


def object_reads(code: str) -> list[tuple[str, int]]:
    """Returns the reads that need The Edge Agent's result objects, with a replacement and a line.

    These objects have an attribute `state`, and their `get` also looks into the state. A name that
    is not bound to `parallel_results` is only examined for the attribute.
    """
    tree = _tree(code)
    nodes = [] if tree is None else list(ast.walk(tree))
    items = {
        each.target.id
        for each in nodes
        if isinstance(each, ast.For | ast.comprehension)
        and isinstance(each.target, ast.Name)
        and isinstance(each.iter, ast.Name)
        and each.iter.id == _RESULTS
    }
    found: dict[str, int] = {}
    for each in nodes:
        match each:
            case ast.Attribute(value=ast.Name(id=name), attr="state"):
                found.setdefault(f"write {name}['state'] for {name}.state", each.lineno)
            case (
                ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                    args=[ast.Constant(value=str(key)), *_],
                )
                | ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)))
            ) if name in items and key not in _RESULT_KEYS:
                shown = json.dumps(key)
                found.setdefault(f"write {name}['state'].get({shown}) for {shown}", each.lineno)
            case _:
                pass
    # The code is parsed inside of a function, whose head is the first line.
    return [(read, line - 1) for read, line in found.items()]


def _changes_state(code: str) -> bool:
    try:
        return read_python(code).changes
    except NotPython:
        return False  # the compiler reports it


def _is_python(code: str) -> bool:
    return _tree(code) is not None


def _tree(code: str) -> ast.Module | None:
    body = "\n".join([f" {line}" for line in code.split("\n")])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(f"def body():\n{body}\n pass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
