"""YAML 1.2 as strings: JSON values out and in, and the line of a path. Knows no formats.

Aliases, tags and duplicate keys are refused: a document from elsewhere may not grow in
memory, construct objects or say a thing twice. Times stay text.
"""

# ruamel.yaml leaves most of its parameters without types; ours are all there.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

from taofold.core.errors import ConfigError
from taofold.store.fields import Path


class _Composer(Composer):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.parser.check_event(AliasEvent):
            mark = self.parser.peek_event().start_mark
            raise MarkedYAMLError(None, None, "aliases are not read: repeat the value", mark)
        return super().compose_node(parent, index)


class _Constructor(SafeConstructor):
    """Without times: they stay the text they are."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


class _Representer(SafeRepresenter):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> Any:
        style = None if data.isprintable() else "|" if _plain(data) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.text)


def _plain(data: str) -> bool:
    """Can a block scalar hold `data` so that every reader gets the same back?"""
    lines = data.split("\n")
    whole = len(lines) > 1 and bool(data.strip())
    return whole and all(line.isprintable() and line == line.rstrip(" ") for line in lines)


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.Constructor, yaml.Representer = _Composer, _Constructor, _Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 1 << 20
    setattr(yaml, "sort_base_mapping_type_on_output", False)  # noqa: B010 - typed as None
    return yaml


def dump(value: Any) -> str:
    """`value`, which is JSON, as a block-style document; strings of several lines as blocks."""
    out = StringIO()
    _yaml().dump(value, out)
    return out.getvalue()


def load(text: str, source: str) -> list[Any]:
    """The documents in `text`.

    Raises:
        ConfigError: it is not YAML, or uses what is refused; the path is `source:line`.
    """
    try:
        return list(_yaml().load_all(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        path = f"{source}:{mark.line + 1}" if mark is not None else source
        raise ConfigError(f"not readable YAML: {error.problem or error}", path=path) from None
    except (YAMLError, ValueError, RecursionError) as error:
        said = "nested too deep" if isinstance(error, RecursionError) else error
        raise ConfigError(f"not readable YAML: {said}", path=source) from None


def line(text: str, path: Path, document: int = 0) -> int:
    """The line, from 1, at which `path` stands, or the nearest thing around it; 0 if unknown."""
    try:
        nodes = list(_yaml().compose_all(text)) if document else [_yaml().compose(text)]
    except (YAMLError, ValueError, RecursionError):
        return 0
    node: Any = nodes[document]
    found: int = 0 if node is None else node.start_mark.line + 1
    for part in path:
        inside = _inside(node, part)
        if inside is None:
            break
        node, found = inside
    return found


def _inside(node: Any, part: str | int) -> tuple[Any, int] | None:
    """The node at `part` of `node`, and its line."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        inner = node.value[part]
        return inner, inner.start_mark.line + 1
    return None
