"""Finds reads of variables on paths where no node has set them.

A forward analysis over the nodes of a compiled flow. Conditions are not evaluated: every branch is
possible, a `while` runs at least once, and a node that fails without a fallback ends the flow.
Reads in a conditional part of a template (`a if b else c`, `{% if %}`, the right side of `and` and
`or`) are ignored. This module does not depend on files or messages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from taofold.files.checked_yaml import KeyPath
from taofold.files.expressions.template import Template
from taofold.files.flow.flow import END, FAIL, OWN, Edge, Flow, Node, templates

Unset: TypeAlias = Mapping[str, tuple[str, ...]]
"""Variables that may be unset here, each with the names of the nodes on such a path."""

_NO_NODES: Final[tuple[str, ...]] = ()


@dataclass(frozen=True, slots=True)
class UnsetRead:
    """A read of a variable that is unset on the path `trail`."""

    path: KeyPath
    name: str
    trail: tuple[str, ...]


def unset_reads(flow: Flow) -> list[UnsetRead]:
    """Returns the reads that a path reaches before any node has set the variable."""
    produced = {name for node in flow.nodes for name in node.produced}
    there = {flow.keys.input, *flow.keys.initial_state}
    walk = _Walk()
    unset = dict.fromkeys(produced - OWN - there, _NO_NODES)
    if flow.start and flow.start[0].condition is not None:
        walk.read(("start", 0, "if"), flow.start[0].condition.needs, unset)
    ended = walk.sequence(flow.nodes, unset, flow.start)
    if flow.result is not None:
        walk.read(("result",), _needed(flow.result.raw), ended)
    return list(walk.found.values())


@dataclass(slots=True)
class _Walk:
    found: dict[tuple[KeyPath, str], UnsetRead] = field(
        default_factory=dict[tuple[KeyPath, str], UnsetRead]
    )

    def read(self, path: KeyPath, names: Iterable[str], unset: Unset) -> None:
        for name in names:
            if name in unset:
                self.found.setdefault((path, name), UnsetRead(path, name, unset[name]))

    def sequence(self, nodes: Sequence[Node], unset: Unset, start: Sequence[Edge] = ()) -> Unset:
        """Walks a list of nodes. Returns the variables that may be unset at its end."""
        places = {node.name: index for index, node in enumerate(nodes)}
        firsts = {places.get(target, 0) for target in _continuing(start)} if start else {0}
        entries: dict[int, dict[str, tuple[str, ...]]] = {first: dict(unset) for first in firsts}
        ended: dict[str, tuple[str, ...]] = {}
        work = sorted(firsts)
        while work:
            position = work.pop()
            node = nodes[position]
            left = self.node(node, entries[position])
            for target in _targets(node):
                to = len(nodes) if target in END else places.get(target, position + 1)
                reached = ended if to == len(nodes) else entries.get(to)
                if reached is None:
                    reached = entries[to] = {}
                    work.append(to)
                new = {name: trail for name, trail in left.items() if name not in reached}
                reached |= new
                if new and to < len(nodes):
                    work.append(to)
        return ended

    def node(self, node: Node, unset: Unset) -> Unset:
        """Checks the reads of a node. Returns the variables that may be unset after it."""
        here, before = node.key_path, unset
        if node.condition is not None:
            self.read((*here, "if"), node.condition.needs, unset)
        if node.approve is not None:
            self.read((*here, "approve"), _needed(node.approve.raw), unset)
        self.read((*here, "with"), _needed(node.inputs.raw), unset)
        for key, template in node.deferred.items():
            self.read((*here, "with", key), template.needs, unset)
        if node.sets is not None:
            self.read((*here, "set"), _needed(node.sets.raw), unset)
        if node.loop is not None:
            self.read((*here, "while", "condition"), node.loop.condition.needs, unset)
        if node.spread is not None:
            if node.spread.items is not None:
                self.read((*here, "parallel", "items"), _needed(node.spread.items.raw), unset)
            for _, inner in node.inner:
                # A branch has its own copy of the state, so its changes are not visible afterwards.
                self.sequence(inner, unset)
        elif node.steps:
            unset = self.sequence(node.steps, unset)
        if not isinstance(node.output, str):
            for name, part in node.output.items():
                if isinstance(part, Template):
                    self.read((*here, "output", name), part.needs, unset)
        # A skipped node sets nothing.
        own = set[str]() if node.condition is not None else node.outputs
        unset = before if node.condition is not None else unset
        behind = {name: (*trail, node.name) for name, trail in unset.items() if name not in own}
        first = node.goto[0].condition if node.goto else None
        if first is not None:
            self.read((*here, "goto", 0, "if"), first.needs, behind)
        return behind


def _targets(node: Node) -> Iterator[str]:
    """Yields the names of the nodes that may follow; "" is the next one."""
    yield from _continuing(node.goto)
    if node.on_error.fallback:
        yield node.on_error.fallback


def _continuing(edges: Sequence[Edge]) -> Iterator[str]:
    """Yields the targets of edges with which the flow continues or ends; "" is the next node."""
    yield from (edge.to for edge in edges if edge.to != FAIL)
    if not edges or edges[-1].condition is not None:
        yield ""


def _needed(value: object) -> Iterator[str]:
    for template in templates(value):
        yield from sorted(template.needs)
