"""Recognises a file of The Edge Agent by what only its form has, or what fails in ours.

A key that only its nodes have decides, and so does a name of an action, a key of a model call, an
end that is written `__end__`, or a read of `content` from a model call, which is a text in our
form.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.files.actions import canonical
from taofold.files.edge_agent.models import ENGINE, TRACING
from taofold.files.edge_agent.nodes import ALIASES, RENAMED
from taofold.files.edge_agent.unsupported import IGNORED, NODE_KEYS, SETTINGS

_TOP: Final = frozenset({"edges", "interrupt_before", "interrupt_after", "data", "checkpoint"})
_NODE: Final = frozenset(
    {
        *("run", "script", "language", "next", "paths", "params", "outputs", "output_key", "type"),
        *("fan_in", "body", "interrupt", "interrupt_before", "interrupt_after", "parallel_each"),
        *("condition", "items", "item_var"),
        *NODE_KEYS,
    }
)
"""Keys that nodes of a flow of ours have not."""
_SECTIONS: Final = frozenset({"llm", *SETTINGS, *IGNORED})
_WITH: Final = frozenset({"shell_provider", "backend", "deployment", *ENGINE, *TRACING})
"""Keys of model calls that ours have not."""
_PROVIDERS: Final = ("shell", "local", "auto", "litellm")
_REPLIES: Final = ("llm.call", "actions.llm_call")
_MAPPINGS: Final = ("dict", "object", "map", "Dict")
_END: Final = "__end__"
_REPLY: Final = re.compile(r"\bresult\.(?:content|usage)\b")
_DEEPEST: Final = 40


def is_foreign(value: Mapping[str, Any]) -> bool:
    """Returns whether a file with nodes is written as The Edge Agent's users write it."""
    if not is_array(value.get("nodes")):
        return False
    settings = value.get("settings")
    if not _TOP.isdisjoint(value) or is_object(value.get("config")):
        return True
    if is_object(settings) and not _SECTIONS.isdisjoint(settings):
        return True
    nodes = list(_nodes(value["nodes"], 0))
    return any(_is_foreign_node(node) for node in nodes) or _reads_replies(value, nodes)


def _nodes(written: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    for node in written if is_array(written) and depth <= _DEEPEST else ():
        if is_object(node):
            yield node
            yield from _nodes(node.get("steps"), depth + 1)


def _is_foreign_node(node: Mapping[str, Any]) -> bool:
    if not _NODE.isdisjoint(node) or _leads_to_end(node.get("goto")):
        return True
    action, keys = _action(node), node.get("with")
    if canonical(action) in ALIASES:
        return True
    if not is_object(keys):
        return False
    if not action.startswith(("llm.", "reason.")):
        return False
    return (
        not _WITH.isdisjoint(keys)
        or keys.get("provider") in _PROVIDERS
        or not RENAMED.get(action, {}).keys().isdisjoint(keys)
    )


def _action(node: Mapping[str, Any]) -> str:
    action = node.get("uses", node.get("action"))
    return action if isinstance(action, str) else ""


def _leads_to_end(goto: Any) -> bool:
    rules = goto if is_array(goto) else [goto]
    return any((rule.get("to") if is_object(rule) else rule) == _END for rule in rules)


def _reads_replies(value: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> bool:
    """Returns whether the file uses the value of a model call as a mapping."""
    schema = value.get("state_schema")
    types: Mapping[str, Any] = schema if is_object(schema) else {}
    texts: list[str] | None = None
    for node in nodes:
        if _action(node) not in _REPLIES or not _answers_text(node.get("with")):
            continue
        if any(map(_REPLY.search, _texts([node.get("output"), node.get("goto")]))):
            return True
        name = node.get("output")
        if not isinstance(name, str) or not name.isidentifier():
            continue
        if types.get(name) in _MAPPINGS:
            return True
        texts = list(_texts(value)) if texts is None else texts
        member = re.compile(
            rf"\bstate(?:\.{name}|\[['\"]{name}['\"]\])(?:\.|\[['\"])(?:content|usage)\b"
        )
        if any(map(member.search, texts)):
            return True
    return False


def _answers_text(keys: Any) -> bool:
    """Returns whether a model call has the keys of a call whose value is a text in our form."""
    if not is_object(keys):
        return True
    return not keys.get("reply") and "output_format" not in keys and "response_format" not in keys


def _texts(value: Any) -> Iterator[str]:
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        item, depth = left.pop()
        if isinstance(item, str):
            yield item
        elif depth > _DEEPEST:
            continue
        elif is_object(item):
            left += [(inner, depth + 1) for inner in item.values()]
        elif is_array(item):
            left += [(inner, depth + 1) for inner in item]
