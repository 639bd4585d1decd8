"""Turns edges, `goto`, `next` and `paths` of The Edge Agent into the `goto` of our nodes.

The precedence is the original's: `goto`, then `edges`, then the next node of the list. `next` and
`paths`, which its own files use, count as `goto`. Parallel edges become a `parallel` node whose
branches hold the nodes up to the fan-in. If none of a node's conditions holds, the run fails.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.files.checked_yaml import KeyPath
from taofold.files.edge_agent.made import Findings, Made
from taofold.files.edge_agent.nodes import NodeTranslator, Written
from taofold.files.edge_agent.texts import TemplateTexts, bare

START: Final = "__start__"
END: Final = "__end__"
FAIL: Final = "__fail__"
_ENDS: Final = (END, "end")
_EDGE: Final = frozenset(
    {"from", "to", "type", "when", "condition", "fan_in", "parallel", "label", "description"}
)
_TESTS: Final = frozenset({"if", "condition", "when"})
_IGNORED: Final = frozenset({"parallel_strategy", "max_workers"})


@dataclass(frozen=True, slots=True)
class Way:
    """A continuation: to the node `to` of the source, if `condition` holds."""

    to: str
    condition: str
    place: KeyPath


@dataclass(slots=True)
class GraphNode:
    """A node of the source with what follows it."""

    name: str
    path: KeyPath
    chain: list[Made]
    """The node, and those that follow it in any case."""
    ways: list[Way] | None = None
    """None = the next node of the list."""
    branches: list[Way] = field(default_factory=list[Way])
    """The first nodes of parallel branches."""
    fan_in: str = ""


class GraphTranslator:
    """Translates the nodes and edges of one file.

    Args:
        findings: Collects faults.
        texts: The file's templates and conditions.
        nodes: The translator of single nodes.
    """

    def __init__(
        self,
        findings: Findings,
        texts: TemplateTexts,
        nodes: NodeTranslator,
    ) -> None:
        self.findings, self.texts, self.nodes = findings, texts, nodes
        self.steps: dict[str, GraphNode] = {}
        self.names: dict[str, str] = {}
        """Our names by those of the source."""
        self.start: list[Way] = []

    def translate(self, raw: Sequence[Any], edges: Any) -> tuple[list[Made], Any]:
        """Returns our nodes, and the value of `start` ("" = the first of them)."""
        listed: list[tuple[int, Mapping[str, Any]]] = []
        for index, node in enumerate(raw):
            if not is_object(node):
                self.findings.refuse(("nodes", index), "must be a mapping: a node")
                continue
            name = str(node.get("name") or f"node_{index + 1}")
            if name in self.names:
                self.findings.refuse(("nodes", index, "name"), f"there is another node {name!r}")
                continue
            self.names[name] = self.nodes.name(node.get("name"), f"node_{index + 1}")
            listed.append((index, {**node, "name": name}))
        self.nodes.interrupts.check(self.names)
        for index, node in listed:
            self._step(node, ("nodes", index))
        self._edges(edges)
        self._chain()
        inside = self._regions()
        nodes = [
            made
            for step in self.steps.values()
            if step.name not in inside
            for made in self._written(step, END)
        ]
        return nodes, self._start(nodes)

    def _step(self, raw: Mapping[str, Any], path: KeyPath) -> None:
        name = str(raw["name"])
        node = self.nodes.translate(Written(raw, path, {}), self.names[name])
        step = GraphNode(name, path, [node])
        waits = self.nodes.interrupts.of(raw, path, name)
        self._ways(step, raw, path)
        step.chain += self.nodes.approvals(node, name, waits)
        fans = raw.get("type") == "dynamic_parallel" or "parallel_each" in raw or "strategy" in raw
        if fans and isinstance(raw.get("fan_in"), str):
            step.fan_in = self._target(raw["fan_in"], (*path, "fan_in"))
        elif not isinstance(raw.get("fan_in"), bool | None):
            hint = "write it at parallel edges, or at a node that fans out"
            self.findings.refuse((*path, "fan_in"), "'fan_in' has no effect at this node", hint)
        self.steps[name] = step

    def _ways(self, step: GraphNode, raw: Mapping[str, Any], path: KeyPath) -> None:
        keys = [key for key in ("goto", "next", "paths") if raw.get(key) is not None]
        for key in keys[1:]:
            self.findings.refuse((*path, key), f"stands beside {keys[0]!r}", "write one of them")
        if keys:
            place = (*path, keys[0])
            paths = keys[0] == "paths"
            step.ways = self._paths(step, raw, path) if paths else self._rules(raw[keys[0]], place)

    def _target(self, name: object, place: KeyPath) -> str:
        """Returns the name of a node of the source, or of the end, after checking it."""
        if not isinstance(name, str) or not (name in self.names or name in (*_ENDS, FAIL)):
            hint = near(str(name), self.names)
            self.findings.refuse(place, f"there is no node {name!r} under 'nodes'", hint)
            return END
        return name

    def _is_end(self, name: str) -> bool:
        # A node of the source may be called `end`.
        return name in _ENDS and name not in self.names

    def _rules(self, written: Any, path: KeyPath) -> list[Way]:
        """Returns the ways of a `goto` or `next`: a name, a rule, or a list of rules."""
        rules: Sequence[Any] = written if is_array(written) else [written]
        ways: list[Way] = []
        if not rules:
            self.findings.refuse(path, "names no node")
        for index, rule in enumerate(rules):
            where = (*path, index) if is_array(written) else path
            if ways and not ways[-1].condition:
                self.findings.refuse(where, "is never taken: the rule before has no condition")
                break
            if isinstance(rule, str):
                ways.append(Way(self._target(rule, where), "", where))
            elif is_object(rule) and isinstance(rule.get("to"), str):
                tests = [str(key) for key in rule if key != "to"]
                if len(tests) > 1 or not _TESTS.issuperset(tests):
                    text = "a rule has the key 'to', and one of 'if', 'condition' and 'when'"
                    self.findings.refuse(where, text)
                    continue
                key = tests[0] if tests else ""
                test = self.texts.condition(rule[key], (*where, key)) if key else ""
                ways.append(Way(self._target(rule["to"], (*where, "to")), test, where))
            else:
                self.findings.refuse(where, "must be a node's name, or {if: CONDITION, to: NAME}")
        return ways

    def _paths(self, step: GraphNode, raw: Mapping[str, Any], path: KeyPath) -> list[Way]:
        """Returns the ways of a node whose `condition` names one of its `paths`."""
        paths, written = raw["paths"], raw.get("condition")
        where = (*path, "paths")
        if not is_object(paths) or not paths or not isinstance(written, str):
            self.findings.refuse(where, "needs a mapping of names to nodes, and a 'condition'")
            return []
        chosen = self._chosen(step, written, (*path, "condition"))
        return [
            Way(self._target(to, place), f"{chosen} == {_quoted(key)}", place)
            for key, to in paths.items()
            for place in [(*where, str(key))]
        ]

    def _chosen(self, step: GraphNode, written: str, place: KeyPath) -> str:
        """Returns the expression for the chosen path. Code of several lines becomes a node."""
        expression = bare(written)
        if "\n" not in expression:
            return f"({self.texts.condition(f'({expression})', place)})"
        name = f"{step.chain[0]['name']}_path"
        body = "\n".join([f"    {line}" for line in written.split("\n")])
        code = f'def _path():\n{body}\nreturn {{"{name}": _path()}}\n'
        chooser = Made(place, {"name": self.nodes.name(name, "path")})
        self.nodes.code(chooser, code, place)
        step.chain.append(chooser)
        return f'get(state, "{name}")'

    def _edges(self, edges: Any) -> None:
        if edges is None:
            return
        if not is_array(edges):
            self.findings.refuse(("edges",), "must be a list of edges")
            return
        for index, edge in enumerate(edges):
            path = ("edges", index)
            if not is_object(edge):
                self.findings.refuse(path, "must be a mapping with 'from' and 'to'")
                continue
            self._edge(edge, path)

    def _edge(self, edge: Mapping[str, Any], path: KeyPath) -> None:
        for key in edge:
            if key == "stream_mode":
                text = "nodes pass values in the state, not over pipes"
                self.findings.refuse((*path, key), f"{key!r} of an edge is not there", text)
            elif key not in _EDGE | _IGNORED:
                hint = near(str(key), sorted(_EDGE))
                self.findings.refuse((*path, str(key)), f"unknown key {key!r} of an edge", hint)
        kind = str(edge.get("type") or "normal")
        kinds = ("normal", "conditional", "entry", "start", "finish", "end", "parallel")
        if kind not in kinds:
            hint = near(str(kind), kinds)
            self.findings.refuse((*path, "type"), f"unknown type {kind!r} of an edge", hint)
            return
        origin = edge.get("from", START if kind in ("entry", "start") else None)
        target = edge.get("to", END if kind in ("finish", "end") else None)
        origins = list(origin) if is_array(origin) else [origin]
        targets = list(target) if is_array(target) else [target]
        for key, names, other in (("from", origins, (START,)), ("to", targets, _ENDS)):
            for name in names or [None]:
                if not isinstance(name, str) or not (name in self.steps or name in other):
                    text = f"there is no node {name!r}" if name else f"needs the key {key!r}"
                    hint = near(str(name), self.steps) if name else ""
                    self.findings.refuse((*path, key) if name else path, text, hint)
                    return
        parallel = kind == "parallel" or edge.get("parallel") is True
        if not isinstance(edge.get("parallel"), bool | None):
            self.findings.refuse((*path, "parallel"), "must be true or false")
        # A branch of a parallel node always runs, and other edges meet at no node.
        without = ("condition", "when") if parallel else ("fan_in",)
        for key in without:
            if edge.get(key) is not None and edge[key] is not parallel:
                hint = "write `condition` at the first node of the branch" if parallel else ""
                what = "a parallel edge" if parallel else "an edge that is not parallel"
                self.findings.refuse((*path, key), f"{key!r} has no effect at {what}", hint)
        for origin in origins:
            if parallel:
                self._parallel(str(origin), targets, edge, path)
                continue
            condition = self._edge_condition(edge, path)
            for target in targets:
                self._add(str(origin), Way(str(target), condition, path))

    def _edge_condition(self, edge: Mapping[str, Any], path: KeyPath) -> str:
        when = edge.get("when")
        if isinstance(when, str) and when.lower() in ("true", "false"):
            when = when.lower() == "true"
        if "condition" not in edge:
            if when is None or when is True:
                return ""
            return self.texts.condition(when, (*path, "when"))
        written, where = edge["condition"], (*path, "condition")
        if is_object(written):
            if written.get("type", "expression") != "expression":
                self.findings.refuse((*where, "type"), "a condition is of type 'expression'")
            written, where = written.get("value"), (*where, "value")
        condition = self.texts.condition(written, where)
        if when is None or when is True:
            return condition
        if when is False:
            return f"not ({condition})"
        return f"({condition}) == {_quoted(when)}"

    def _add(self, origin: str, way: Way) -> None:
        before = self.start
        if origin != START and origin in self.steps:
            before = self.steps[origin].ways or []
        if any(not other.condition and other.place[:1] == ("edges",) for other in before):
            self.findings.refuse(
                way.place,
                f"is never taken: an edge from {origin!r} before it has no condition",
                "write `type: parallel` and `fan_in: NODE` at both, or a `when`",
            )
            return
        if origin == START:
            self.start.append(way)
            return
        step = self.steps.get(origin)
        if step is None:
            return
        place = step.ways[0].place[:1] if step.ways else ("edges",)
        if place != ("edges",):
            text = f"this edge has no effect: the node {origin!r} states what follows"
            self.findings.note(way.place, text)
            return
        step.ways = [*(step.ways or []), way]

    def _parallel(
        self, origin: str, targets: list[Any], edge: Mapping[str, Any], path: KeyPath
    ) -> None:
        fan_in = str(edge.get("fan_in") or "")
        step = self.steps.get(origin)
        if fan_in not in self.steps or step is None:
            text = "a parallel edge starts at a node, and names the node at which they meet"
            self.findings.refuse(path, text, "write `fan_in: NODE`")
            return
        if step.fan_in not in ("", fan_in):
            self.findings.refuse((*path, "fan_in"), "the parallel edges of a node meet at one node")
            return
        step.fan_in = fan_in
        step.branches += [Way(str(target), "", path) for target in targets]

    def _chain(self) -> None:
        """Lets nodes without ways continue at the fan-in, or at the next node of the list."""
        names = list(self.steps)
        for index, step in enumerate(self.steps.values()):
            for way in (step.ways or ()) if step.fan_in else ():
                if way.to != step.fan_in or way.condition:
                    text = f"the node {step.name!r} fans out: it continues at {step.fan_in!r}"
                    hint = "let the edge start there"
                    self.findings.refuse(way.place, text, hint)
            if step.fan_in and (step.branches or step.ways is None):
                step.ways = [Way(step.fan_in, "", step.path)]
            if step.ways is None:
                following = names[index + 1] if index + 1 < len(names) else END
                step.ways = [Way(following, "", step.path)]

    def _regions(self) -> dict[str, str]:
        """Makes the branches of parallel edges. Returns their nodes, with the node that starts."""
        inside: dict[str, str] = {}
        for step in list(self.steps.values()):
            if not step.branches:
                continue
            branches: dict[str, Any] = {}
            for way in step.branches:
                region = self._region(way.to, step.fan_in)
                if not region:
                    text = "a parallel branch has no node of its own"
                    self.findings.refuse(way.place, text)
                    return {}
                for name in region:
                    if name in inside or name == step.name:
                        self.findings.refuse(
                            way.place,
                            f"node {name!r} belongs to two parallel branches, or leads back",
                            "let each branch have nodes of its own up to the fan_in",
                        )
                        return {}
                    inside[name] = step.name
                branches[self.names[way.to]] = region
            self._entered(inside, step)
            written = {
                branch: [
                    made
                    for name in self._ordered(region)
                    for made in self._written(self.steps[name], step.fan_in)
                ]
                for branch, region in branches.items()
            }
            place = step.branches[0].place
            spread = Made(place, {"branches": written})
            spread["result"] = {"branch": "{{ branch }}", "success": True, "state": "{{ state }}"}
            node = Made(place, {"name": self.nodes.name(f"{step.name}_branches", "branches")})
            node["parallel"] = spread
            node["output"] = {"parallel_results": "{{ result | values }}"}
            step.chain.append(node)
        return inside

    def _entered(self, inside: Mapping[str, str], start: GraphNode) -> None:
        """Refuses edges from outside into a branch."""
        entries = {way.to for way in start.branches}
        for step in self.steps.values():
            for way in step.ways or ():
                owner = inside.get(way.to)
                if owner == start.name and inside.get(step.name) != owner:
                    self.findings.refuse(
                        way.place,
                        f"leads into the parallel branch of {way.to!r}",
                        "only a parallel edge may start a branch",
                    )
        if any(way.to in entries for way in self.start):
            self.findings.refuse(self.start[0].place, "the flow cannot start in a branch")

    def _region(self, first: str, fan_in: str) -> list[str]:
        """Returns the nodes that are reached from `first` before the fan-in."""
        region: list[str] = []
        left = [first]
        while left:
            name = left.pop(0)
            if name == fan_in or name in region or name not in self.steps:
                continue
            region.append(name)
            left += [way.to for way in self.steps[name].ways or ()]
        return region

    def _ordered(self, region: Iterable[str]) -> list[str]:
        """Returns the nodes of a branch: its first one, then the others in the file's order."""
        names = list(region)
        places = {name: number for number, name in enumerate(self.steps)}
        return [*names[:1], *sorted(names[1:], key=places.__getitem__)]

    def _written(self, step: GraphNode, end: str) -> list[Made]:
        """Returns the step's nodes with their `goto`. `end` is where their list ends."""
        ways: list[Any] = []
        for way in step.ways or ():
            ends = way.to == end or self._is_end(way.to)
            to = "end" if ends else self.names.get(way.to, way.to)
            edge = Made(way.place, {"if": way.condition, "to": to} if way.condition else {"to": to})
            for key in ("if", "to"):
                edge.places[key] = way.place
            ways.append(edge)
            if not way.condition:
                break
        last = step.chain[-1]
        if ways and "if" in ways[-1]:
            ways.append({"to": FAIL})
        if len(ways) == 1:
            last.put("goto", ways[0]["to"], ways[0].source)
        elif ways:
            last.put("goto", ways, ways[0].source)
        return step.chain

    def _start(self, nodes: Sequence[Made]) -> Any:
        """Returns the value of `start`, "" if the flow begins with its first node."""
        if not self.start:
            return ""
        edges: list[Any] = []
        for way in self.start:
            to = "end" if self._is_end(way.to) else self.names.get(way.to, way.to)
            edge = {"if": way.condition, "to": to} if way.condition else {"to": to}
            edges.append(Made(way.place, edge))
            if not way.condition:
                break
        if "if" in edges[-1]:
            edges.append({"to": FAIL})
        if len(edges) > 1:
            return edges
        return "" if nodes and edges[0]["to"] == nodes[0]["name"] else edges[0]["to"]


def tidy(nodes: Sequence[Any]) -> None:
    """Removes each `goto` that leads to the next node of its list, which needs none."""
    for index, node in enumerate(nodes):
        following = nodes[index + 1]["name"] if index + 1 < len(nodes) else "end"
        if node.get("goto") == following:
            del node["goto"]
        for inner in [node["steps"]] if is_array(node.get("steps")) else []:
            tidy([each for each in inner if is_object(each)])
        spread = node.get("parallel")
        if is_object(spread) and is_object(spread.get("branches")):
            for branch in spread["branches"].values():
                if is_array(branch):
                    tidy([each for each in branch if is_object(each)])


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
