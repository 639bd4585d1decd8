"""A flow as a picture: Mermaid text. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from taofold.spec.flow import Flow, Node
from taofold.spec.flow_keys import END

_LONGEST: Final = 60
_START: Final = "start_"
_END: Final = "end_"


def mermaid(flow: Flow) -> str:
    """The flow as a Mermaid flowchart, top to bottom. Dashed: what happens on errors."""
    lines = ["flowchart TD", f"  {_START}([{_quoted(flow.name)}])", f"  {_END}([end])"]
    lines += _boxes(flow.nodes, "  ")
    lines.append(f"  {_START} --> {_id(flow.nodes[0])}")
    lines += _ways(flow.nodes, _END)
    return "\n".join(lines) + "\n"


def _boxes(nodes: Sequence[Node], pad: str) -> Iterator[str]:
    for node in nodes:
        if node.inner:
            yield f"{pad}subgraph {_id(node)}[{_quoted(_title(node))}]"
            for name, inner in node.inner:
                if name:
                    yield f"{pad}  subgraph {_id(node)}_{_safe(name)}[{_quoted(name)}]"
                yield from _boxes(inner, pad + ("    " if name else "  "))
                if name:
                    yield f"{pad}  end"
            yield f"{pad}end"
        else:
            yield f"{pad}{_id(node)}[{_quoted(_title(node))}]"


def _title(node: Node) -> str:
    said = node.name
    if node.kind is not None:
        said += f"\n{node.kind.name}"
    elif node.sets is not None:
        said += "\nset"
    elif node.loop is not None:
        said += f"\nwhile {node.loop.condition.source} (at most {node.loop.most})"
    elif node.spread is not None and node.spread.items is not None:
        said += f"\nfor each {node.spread.name}, {node.spread.lanes} at once"
    elif node.spread is not None:
        said += "\nin parallel"
    return said + ("\nasks first" if node.approve is not None else "")


def _ways(nodes: Sequence[Node], after: str) -> Iterator[str]:
    """The arrows of one list, which goes on to `after`."""
    for place, node in enumerate(nodes):
        following = _id(nodes[place + 1]) if place + 1 < len(nodes) else after
        always = False
        for edge in node.goto:
            label = f"|{_quoted(edge.condition.source)}|" if edge.condition is not None else ""
            always = always or edge.condition is None
            yield from _arrow(node, f"-->{label}", edge.to, after)
        if not always and following:
            label = "|else|" if node.goto else ""
            yield f"  {_id(node)} -->{label} {following}"
        if node.on_error.fallback:
            yield from _arrow(node, "-.->|on error|", node.on_error.fallback, after)
        for _, inner in node.inner:
            yield from _ways(inner, "")


def _arrow(node: Node, arrow: str, to: str, after: str) -> Iterator[str]:
    target = after if to in END else f"n_{_safe(to)}"
    if target:
        yield f"  {_id(node)} {arrow} {target}"


def _id(node: Node) -> str:
    return f"n_{_safe(node.name)}"


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


def _quoted(text: str) -> str:
    """Text that Mermaid shows as it is."""
    lines = [line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
             for line in text.split("\n")]  # fmt: skip
    said = "<br/>".join(
        line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
        for line in lines
    )
    return f'"{said}"'
