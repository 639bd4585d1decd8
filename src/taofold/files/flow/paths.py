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
from taofold.files.flow.flow import END, OWN, Flow, Node, templates

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
    walk = _Walk()
    ended = walk.sequence(flow.nodes, dict.fromkeys(produced - OWN - {flow.keys.input}, _NO_NODES))
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

    def sequence(self, nodes: Sequence[Node], unset: Unset) -> Unset:
        """Walks a list of nodes. Returns the variables that may be unset at its end."""
        places = {node.name: index for index, node in enumerate(nodes)}
        entries: dict[int, dict[str, tuple[str, ...]]] = {0: dict(unset)}
        ended: dict[str, tuple[str, ...]] = {}
        work = [0]
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
        here = node.key_path
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
        own = node.outputs
        behind = {name: (*trail, node.name) for name, trail in unset.items() if name not in own}
        first = node.goto[0].condition if node.goto else None
        if first is not None:
            self.read((*here, "goto", 0, "if"), first.needs, behind)
        return behind


def _targets(node: Node) -> Iterator[str]:
    """Yields the names of the nodes that may follow; "" is the next one."""
    yield from (edge.to for edge in node.goto)
    if not node.goto or node.goto[-1].condition is not None:
        yield ""
    if node.on_error.fallback:
        yield node.on_error.fallback


def _needed(value: object) -> Iterator[str]:
    for template in templates(value):
        yield from sorted(template.needs)
