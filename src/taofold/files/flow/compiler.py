"""Compiles a flow file: its nodes, values and conditions, the keys of actions, the state.

Finds all faults, each at its key. Imports and runs nothing.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.files.actions import Actions, Keys, Kind, canonical
from taofold.files.checked_yaml import Fault, KeyPath, YamlDocument, check, similar_choice
from taofold.files.code_names import written_names
from taofold.files.edge_agent.unsupported import nearest_thing
from taofold.files.expressions.condition import Condition
from taofold.files.expressions.settings import resolved
from taofold.files.expressions.template import Template, Unrenderable, is_template
from taofold.files.flow.flow import (
    END,
    FAIL,
    OWN,
    Branching,
    Edge,
    Flow,
    FlowKeys,
    Given,
    Loop,
    Node,
    NodeKeys,
    OnError,
    Parallel,
    Spread,
    templates,
)
from taofold.files.python_references import is_name
from taofold.files.types import NoType, record, type_of
from taofold.log.formats.yaml_document import path_text

_ALWAYS: Final = frozenset({"state", "variables", "goal"})
_DEEPEST: Final = 50


class _Free(BaseModel):
    model_config = ConfigDict(extra="allow")


@dataclass(slots=True)
class Compiler:
    """Collects faults while it compiles. `names` are those that a template may use here."""

    document: YamlDocument
    actions: Actions
    keys: FlowKeys
    faults: list[Fault] = field(default_factory=list[Fault])
    expressions: list[tuple[KeyPath, Template | Condition]] = field(default_factory=list[Any])
    """All expressions that read the state or the file's variables, with their positions."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Environment variables, for settings that are templates."""
    merging: bool = False
    """Some node sets variables whose names the file does not show."""

    def wrong(self, path: KeyPath, message: str, hint: str = "") -> None:
        """Records a fault."""
        self.faults.append(self.document.fault(path, message, hint))

    def given(self, value: Any, path: KeyPath, extra: Iterable[str] = ()) -> Given:
        """Returns a value with its texts compiled."""
        compiled = Given(self._compiled(value, path, 0))
        for template in templates(compiled.raw):
            self.known(template.names, path, extra)
            self.expressions.append((path, template))
        return compiled

    def _compiled(self, value: Any, path: KeyPath, depth: int) -> Any:
        if depth > _DEEPEST:
            self.wrong(path, "is nested too deep")
            return None
        if isinstance(value, str) and is_template(value):
            # Faulty texts stay unchanged: their fault is recorded, and others are still found.
            return self.template(value, path) or value
        if is_object(value):
            return {str(k): self._compiled(v, (*path, str(k)), depth + 1) for k, v in value.items()}
        if is_array(value):
            return [self._compiled(v, (*path, i), depth + 1) for i, v in enumerate(value)]
        return value

    def template(self, text: str, path: KeyPath) -> Template | None:
        """Returns a template, or records a fault."""
        try:
            return Template(text)
        except Unrenderable as error:
            self.wrong(path, str(error))
            return None

    def condition(self, text: str, path: KeyPath, extra: Iterable[str] = ()) -> Condition | None:
        """Returns a condition, or records a fault."""
        try:
            condition = Condition(text)
        except Unrenderable as error:
            self.wrong(path, str(error))
            return None
        self.known(condition.names, path, extra)
        self.expressions.append((path, condition))
        return condition

    def known(self, names: Iterable[str], path: KeyPath, extra: Iterable[str]) -> None:
        names_here = _ALWAYS | set(extra)
        for name in sorted(set(names) - names_here):
            # A list of all names would be no hint.
            near_one = near(name, names_here)
            nearest = near_one if near_one.startswith("did") else f"write state.{name}?"
            self.wrong(path, f"unknown name {name!r}", nearest)

    def check_reads(self, variables: Collection[str]) -> frozenset[str]:
        """Records faults for reads of unknown constants and misspelled `variables`.

        Returns the variables of the state that must exist at the start. A run can start with a
        state, so a name without a similar one is no fault.
        """
        started: set[str] = set()
        for path, expression in self.expressions:
            for name in sorted(expression.constants - set(self.keys.variables)):
                hint = near(name, self.keys.variables) if self.keys.variables else ""
                self.wrong(path, f"the file has no variables.{name}", hint)
            started |= expression.reads - set(variables)
            for name in () if self.merging else sorted(expression.reads - set(variables)):
                # A list and one of its entries are two variables.
                others = [other for other in variables if name not in (f"{other}s", other[:-1])]
                similar = get_close_matches(name, others, n=1, cutoff=0.8)
                if similar:
                    hint = f"did you mean {similar[0]!r}? If it is there at the start, name it in"
                    self.wrong(path, f"no node sets state.{name}", f"{hint} state_schema")
        return frozenset(started)

    def flow(self) -> Flow:
        """Returns the flow of the file, without its faulty parts."""
        keys = self.keys
        if "strategy" in keys.model_fields_set:
            self.wrong(("strategy",), "a flow is the strategy: take it out")
        compiler = Nodes(self)
        nodes = compiler.all(self.document.value.get("nodes"), ("nodes",))
        start = compiler.edges(
            keys.start, ("start",), frozenset(), [str(name) for name in _names_of(self.document)]
        )
        result = None
        if keys.result is not None:
            result = self.given(keys.result, ("result",))
        for name, spec in keys.agents.items():
            if not is_name(spec) and not spec.endswith((".yaml", ".yml")):
                self.wrong(("agents", name), f"{spec!r} is no agent file and no module:attr")
        produced = {name for node in nodes for name in node.produced}
        state = self._state(produced)
        types: dict[str, TypeAdapter[Any]] = {}
        if state is not None:
            for name, info in state.model_fields.items():
                types[name] = TypeAdapter(info.annotation)
            if keys.input and keys.input not in types:
                self.wrong(("input",), f"{keys.input!r} is not in state_schema")
        known = {*produced, *types, keys.input, *keys.initial_state, *OWN}
        needs = self.check_reads(known - {""})
        adapter = None if state is None else TypeAdapter(state)
        typed = "output" in keys.model_fields_set
        reads_goal = any("goal" in expression.names for _, expression in self.expressions)
        return Flow(
            keys.name,
            keys,
            nodes,
            keys.variables,
            start,
            adapter,
            types,
            result,
            typed,
            needs,
            reads_goal,
        )

    def _state(self, produced: set[str]) -> Any:
        """Returns the type of the state at the start. Other variables are untyped."""
        written = self.keys.state_schema
        if written is None:
            return None
        if not is_object(written):
            self.wrong(("state_schema",), "must be a mapping of names to types")
            return None
        if written.get("type") == "object" and is_object(written.get("properties")):
            required = written.get("required", [])
            properties: dict[str, Any] = written["properties"]
            written = {n if n in required else f"{n}?": t for n, t in properties.items()}
        # Variables that a node sets may be missing at the start, even if the schema requires them.
        late = {name: f"{name}?" for name in map(str, written) if name in produced}
        try:
            state = record({late.get(str(n), str(n)): t for n, t in written.items()}, "State")
        except NoType as error:
            self.wrong(("state_schema", *error.path), str(error))
            return None
        # Untyped variables are allowed beside the typed ones.
        return create_model("State", __base__=(state, _Free))

    def kind(self, name: str, path: KeyPath) -> Kind | None:
        """Returns the action of this name, or records a fault."""
        try:
            return self.actions[name]
        except KeyError:
            nearest = nearest_thing(name, near(name, [*self.actions, "tool.NAME"]))
            self.wrong(path, f"unknown action {name!r}", nearest)
            return None

    def defaults(self, kind: Kind) -> dict[str, Any]:
        """Returns the defaults of the file's settings for keys of the action."""
        part: Any = getattr(self.keys.settings, kind.settings) if kind.settings else None
        values: dict[str, Any] = {} if part is None else part.model_dump(exclude_unset=True)
        return {name: value for name, value in values.items() if name in kind.keys.model_fields}

    def model(self, name: str, provider: str = "") -> str:
        """Returns a model's name, completed with the provider of the node or the settings."""
        provider = provider or self.keys.settings.provider
        return f"{provider}:{name}" if provider and ":" not in name else name

    def action_keys(self, kind: Kind, raw: Mapping[str, Any], given: Given, path: KeyPath) -> None:
        """Checks the literal keys under `with`."""
        compiled: Mapping[str, Any] = given.raw
        # Keys with templates have no value yet. They are checked when the node runs.
        late = {key for key, value in compiled.items() if templates(value)}
        try:
            kind.keys.model_validate({**raw})
        except ValidationError as error:
            for detail in error.errors():
                loc = detail["loc"]
                if detail["type"] != "extra_forbidden" and str(loc[0] if loc else "") in late:
                    continue
                self._misfit(kind, detail, path)
        written = raw.get("output_format")
        if written is not None and "output_format" not in late:
            try:
                type_of(written)
            except NoType as wrong:
                self.wrong((*path, "output_format", *wrong.path), str(wrong))
        for misuse in kind.misuses(raw):
            where = (*path, misuse.key)
            self.faults.append(
                self.document.fault_inside(where, misuse.line, misuse.message, misuse.hint)
            )

    def _misfit(self, kind: Kind, detail: ErrorDetails, path: KeyPath) -> None:
        loc = detail["loc"]
        if detail["type"] == "extra_forbidden":
            key = str(loc[-1])
            there = kind.keys.elsewhere.get(key, "") if issubclass(kind.keys, Keys) else ""
            hint = there or near(key, fields(kind.keys))
            self.wrong((*path, *loc), f"unknown key {key!r} of {kind.name}", hint)
        elif detail["type"] == "missing":
            self.wrong(path, f"{kind.name} needs the key {str(loc[-1])!r}")
        else:
            text = detail["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
            # A rule about several keys is a rule of the action.
            self.wrong(
                (*path, *loc), text if loc else f"{kind.name} {text}", similar_choice(detail)
            )

    def settings(self, kind: Kind, written: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
        """Returns the keys under `with`, with the templates of settings rendered.

        Names of models, tools and code are settings: no value of a run may choose them.
        """
        keys: dict[str, Any] = {}
        for key, value in written.items():
            keys[key] = value
            if key in (*kind.models, *kind.literal, "tools") and key not in kind.verbatim:
                try:
                    keys[key] = resolved(value, self.keys.variables, self.environment)
                except Unrenderable as error:
                    self.wrong((*path, key), str(error))
                    del keys[key]
        return keys


def _names_of(document: YamlDocument) -> list[Any]:
    """Returns the names of the file's own nodes."""
    nodes = document.value.get("nodes")
    written = nodes if is_array(nodes) else ()
    return [node["name"] for node in written if is_object(node) and "name" in node]


def fields(model: type[BaseModel]) -> list[str]:
    """Returns the keys of a model as files write them."""
    return [info.alias or name for name, info in model.model_fields.items()]


_NESTED: Final = 10
_WORK: Final = ("with", "steps", "while", "parallel", "uses", "action", "set")
"""Keys whose absence another key of a node makes a fault."""


def _mended(key: str, value: Any) -> Any:
    """Returns the usable part of a faulty `while` or `parallel`, for its inner nodes' names."""
    if not is_object(value):
        return None
    if key == "while":
        condition = value.get("condition")
        return {
            "condition": condition if isinstance(condition, str) else "true",
            "max_iterations": 1,
        }
    if key == "parallel":
        name = value.get("as")
        called = {"as": name} if isinstance(name, str) else {}
        branches = value.get("branches")
        return {"branches": branches} if is_object(branches) else {"items": [], **called}
    return None


class Nodes:
    """Compiles lists of nodes. Names are unique in the whole file."""

    def __init__(self, compiler: Compiler) -> None:
        self.c = compiler
        self.names: set[str] = set()

    def all(self, raw: Any, path: KeyPath, extra: frozenset[str] = frozenset()) -> tuple[Node, ...]:
        """Compiles a list of nodes."""
        if not is_array(raw):
            self.c.wrong(path, "must be a list of nodes")
            return ()
        # Each level of nodes adds one index to the position.
        if len([part for part in path if isinstance(part, int)]) > _NESTED:
            self.c.wrong(path, "is nested too deep")
            return ()
        beside = [str(node["name"]) for node in raw if is_object(node) and "name" in node]
        nodes = [self.one(value, (*path, i), extra, beside) for i, value in enumerate(raw)]
        return tuple([node for node in nodes if node is not None])

    def one(self, raw: Any, path: KeyPath, extra: frozenset[str], beside: list[str]) -> Node | None:
        """Compiles one node. Returns None after recording its faults."""
        keys, faults = check(self.c.document, NodeKeys, raw, path)
        self.c.faults += faults
        if keys is None:
            return self._rest(raw, path, extra, beside) if is_object(raw) else None
        if keys.name in self.names or keys.name in (*END, FAIL):
            self.c.wrong((*path, "name"), f"there is another node {keys.name!r}")
        # Also for a faulty node, because every `goto` to it would otherwise be reported too.
        self.names.add(keys.name)
        kinds = self._does(keys, path)
        if kinds is None:
            return None
        approve = None
        if keys.approve:
            approve = self.c.given(keys.approve, (*path, "approve"), extra)
        condition = None
        if keys.if_:
            condition = self.c.condition(keys.if_, (*path, "if"), extra)
        return Node(
            keys.name,
            path,
            keys.description,
            condition=condition,
            output=self._output(keys, path, extra),
            merge=keys.merge,
            merged=self._merged(keys, path),
            goto=self.edges(keys.goto, (*path, "goto"), extra | {"result"}, beside),
            on_error=self._on_error(keys, path, beside),
            timeout=keys.timeout,
            approve=approve,
            **self._work(keys, path, extra, kinds),
        )

    def _output(
        self, keys: NodeKeys, path: KeyPath, extra: frozenset[str]
    ) -> str | dict[str, str | Template]:
        """Returns `output` with its templates compiled."""
        if isinstance(keys.output, str):
            return keys.output
        parts: dict[str, str | Template] = {}
        for name, part in keys.output.items():
            if not is_template(part):
                parts[name] = part
            elif isinstance(
                template := self.c.given(part, (*path, "output", name), extra | {"result"}).raw,
                Template,
            ):
                parts[name] = template
        return parts

    def _merged(self, keys: NodeKeys, path: KeyPath) -> frozenset[str]:
        """Returns the variables that `merge` may set, as far as the file shows them."""
        if not keys.merge:
            return frozenset()
        if keys.output:
            self.c.wrong((*path, "merge"), "does not go with 'output': keep one of them")
        if keys.set or keys.steps:
            self.c.wrong((*path, "merge"), "is only for nodes with a value")
        self.c.merging = True
        code = keys.with_.get("code")
        return written_names(code) if isinstance(code, str) else frozenset()

    def _rest(
        self, raw: Mapping[str, Any], path: KeyPath, extra: frozenset[str], beside: list[str]
    ) -> Node | None:
        """Compiles the node without its faulty keys, to find the faults inside of it as well."""
        usable: dict[str, Any] = {"name": "node_" + "_".join(map(str, path))}
        for key, value in raw.items():
            for candidate in (value, _mended(key, value)):
                keys, _ = check(self.c.document, NodeKeys, {**usable, key: candidate}, path)
                if keys is not None:
                    usable[key] = candidate
                    break
        before = len(self.c.faults)
        node = self.one(usable, path, extra, beside)
        # Faults that follow from the removal of a key are dropped. The key's own fault is reported.
        own = [path_text((*path, key)) for key in _WORK if key not in usable]
        absent = {path_text(path), *own}
        self.c.faults[before:] = [f for f in self.c.faults[before:] if f.path not in absent]
        return node

    def _does(self, keys: NodeKeys, path: KeyPath) -> str | None:
        """Returns the key that defines the node's work."""
        if keys.uses and keys.action and canonical(keys.uses) != canonical(keys.action):
            self.c.wrong((*path, "action"), "says something else than 'uses': keep one of them")
            return None
        options = keys.work
        each = options == ["uses", "parallel"]
        if len(options) > 1 and not each:
            self.c.wrong(path, f"does several things: {', '.join(options)}; keep one of them")
            return None
        if not options and not keys.steps:
            self.c.wrong(
                path,
                "does nothing: it needs 'uses' (or 'action'), 'set', 'while', "
                "'parallel' or 'steps'",
            )
            return None
        if keys.steps and options and options[0] in ("uses", "set"):
            self.c.wrong((*path, "steps"), f"does not go with {options[0]!r}")
        if options != ["uses"] and not each and keys.with_:
            self.c.wrong((*path, "with"), "is only for 'uses'")
        return options[-1] if options else "steps"

    def _work(
        self, keys: NodeKeys, path: KeyPath, extra: frozenset[str], said: str
    ) -> dict[str, Any]:
        match said:
            case "uses":
                return self._uses(keys, path, extra)
            case "set":
                return {"sets": self.c.given(keys.set, (*path, "set"), extra)}
            case "while":
                assert keys.while_ is not None
                inner = extra | {"iteration"}
                where = (*path, "while", "condition")
                condition = self.c.condition(keys.while_.condition, where, inner)
                if not keys.steps:
                    self.c.wrong(path, "a 'while' needs 'steps'")
                loop = None if condition is None else Loop(condition, keys.while_.max_iterations)
                return {"loop": loop, "steps": self.all(keys.steps, (*path, "steps"), inner)}
            case "parallel":
                assert keys.parallel is not None
                return self._parallel(keys, keys.parallel, path, extra)
            case _:
                return {"steps": self.all(keys.steps, (*path, "steps"), extra)}

    def _uses(self, keys: NodeKeys, path: KeyPath, extra: frozenset[str]) -> dict[str, Any]:
        key = "uses" if keys.uses else "action"
        kind = self.c.kind(keys.action_name, (*path, key))
        if kind is None:
            return {}
        where = (*path, "with")
        written = self.c.settings(kind, {**self.c.defaults(kind), **keys.with_}, where)
        deferred: dict[str, Template] = {}
        for name in sorted(kind.deferred.keys() & set(written)):
            template = self.c.template(str(written[name]), (*where, name))
            if template is not None:
                deferred[name] = template
                self.c.known(template.names, (*where, name), {*extra, kind.deferred[name]})
                self.c.expressions.append(((*where, name), template))
        late = {*kind.deferred, *kind.verbatim}
        now = {name: value for name, value in written.items() if name not in late}
        values = self.c.given(now, where, extra)
        verbatim = {name: written[name] for name in kind.verbatim if name in written}
        if verbatim:
            values = Given({**values.raw, **verbatim})
        self.c.action_keys(kind, written, values, where)
        models = {
            name: self.c.model(str(written[name]), str(written.get("provider") or ""))
            for name in kind.models
            if isinstance(written.get(name), str) and written[name]
        }
        return {"kind": kind, "inputs": values, "models": models, "deferred": deferred}

    def _parallel(
        self, keys: NodeKeys, spread: Parallel, path: KeyPath, extra: frozenset[str]
    ) -> dict[str, Any]:
        where = (*path, "parallel")
        inner = extra | {spread.as_, "index"} if spread.items is not None else extra | {"branch"}
        if (spread.items is None) == (not spread.branches):
            self.c.wrong(where, "needs either 'items' or 'branches'")
            return {}
        branches: dict[str, tuple[Node, ...]] = {}
        for name, nodes in spread.branches.items():
            # A branch may be a single node without a name, which then gets the branch's name.
            place = (*where, "branches", name)
            if is_object(nodes):
                single = {"name": name, **nodes}
                node = self.one(single, place, inner, [str(single["name"])])
                branches[name] = () if node is None else (node,)
            else:
                branches[name] = self.all(nodes, place, inner)
        steps: tuple[Node, ...] = ()
        items: Given | None = None
        if spread.items is not None:
            items = self.c.given(spread.items, (*where, "items"), extra)
            steps = self._each(keys, path, inner)
        elif keys.steps or keys.action_name:
            self.c.wrong(path, "'branches' hold their own nodes: no 'steps' or 'uses' beside them")
        result = None
        if spread.result is not None:
            result = self.c.given(spread.result, (*where, "result"), inner)
        fan_out = Spread(
            items, spread.as_, branches, spread.max_concurrency, spread.fail_fast, result
        )
        return {"spread": fan_out, "steps": steps}

    def _each(self, keys: NodeKeys, path: KeyPath, extra: frozenset[str]) -> tuple[Node, ...]:
        """Compiles the work for every item: `steps`, or the action beside `parallel`."""
        if keys.steps:
            return self.all(keys.steps, (*path, "steps"), extra)
        if not keys.action_name:
            self.c.wrong(path, "'items' need 'steps' or 'uses': what is done for each")
            return ()
        name = f"{keys.name}_each"
        work = self._uses(keys, path, extra)
        return (Node(name, path, keys.description, timeout=keys.timeout, **work),)

    def edges(
        self,
        written: str | list[Branching],
        path: KeyPath,
        extra: frozenset[str],
        beside: Iterable[str],
    ) -> tuple[Edge, ...]:
        """Compiles `goto` or `start`."""
        if isinstance(written, str):
            if written:
                self._target(written, path, beside)
            return (Edge(written),) if written else ()
        edges: list[Edge] = []
        for number, branch in enumerate(written):
            where = (*path, number)
            self._target(branch.to, (*where, "to"), beside)
            condition = None
            if branch.if_:
                condition = self.c.condition(branch.if_, (*where, "if"), extra)
            elif number < len(written) - 1:
                self.c.wrong(where, "without 'if' it is always taken: it must be the last")
            edges.append(Edge(branch.to, condition))
        return tuple(edges)

    def _on_error(self, keys: NodeKeys, path: KeyPath, beside: Iterable[str]) -> OnError:
        rule = keys.on_error or OnError()
        if rule.fallback:
            self._target(rule.fallback, (*path, "on_error", "fallback"), beside)
        if rule.fallback and rule.then == "continue":
            self.c.wrong((*path, "on_error"), "has a fallback and 'then: continue': keep one")
        return rule

    def _target(self, name: str, path: KeyPath, beside: Iterable[str]) -> None:
        targets = list(dict.fromkeys([*beside, END[0]]))
        if name not in (*targets, *END, FAIL):
            self.c.wrong(path, f"there is no node {name!r} beside this one", near(name, targets))
