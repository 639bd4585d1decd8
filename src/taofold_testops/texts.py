"""Parts of JSON answers, and documents of the services as plain text and back. Pure.

Jira Cloud v3 has texts in the Atlassian Document Format
(https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/), Confluence pages
have the storage format, which is XHTML with macros
(https://confluence.atlassian.com/doc/confluence-storage-format-790796544.html).
"""

from html.parser import HTMLParser
from typing import Any, Final

from taofold.core.json_values import is_array, is_object

_BLOCKS: Final = frozenset(
    {
        "paragraph",
        "heading",
        "listItem",
        "codeBlock",
        "blockquote",
        "tableRow",
        "rule",
        "panel",
        "expand",
    }
)
_DEEPEST: Final = 40
"""Nested nodes of a document beyond this depth are left out."""


def clip(text: Any, most: int) -> str:
    """Returns the text, shortened to `most` characters with a note of what is left out."""
    text = "" if text is None else str(text)
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more characters)"


def object_in(value: Any, name: str) -> dict[str, Any]:
    """Returns the object with this name in an object, or an empty one."""
    inner = value.get(name) if is_object(value) else None
    return inner if is_object(inner) else {}


def objects_in(value: Any, name: str) -> list[dict[str, Any]]:
    """Returns the objects of the array with this name in an object."""
    found = value.get(name) if is_object(value) else None
    return [item for item in found if is_object(item)] if is_array(found) else []


def count_in(value: Any, name: str) -> int:
    """Returns the count with this name in an object; 0 if there is none, or it is no count."""
    found = value.get(name) if is_object(value) else None
    return max(0, found) if isinstance(found, int) and not isinstance(found, bool) else 0


def adf(text: str) -> dict[str, Any]:
    """Returns plain text as an Atlassian document, a paragraph for each line."""
    lines = text.splitlines() or [""]
    return {
        "type": "doc",
        "version": 1,
        "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": line}] if line else []}
            for line in lines
        ],
    }


def plain(value: Any) -> str:
    """Returns an Atlassian document as plain text. Data Center's texts are plain already."""
    if isinstance(value, str):
        return value
    parts: list[str] = []
    _walk(value, parts, 0)
    return "".join(parts).strip()


def _walk(node: Any, parts: list[str], depth: int) -> None:
    if not is_object(node) or depth > _DEEPEST:
        return
    kind, attributes = node.get("type"), node.get("attrs")
    known = attributes if is_object(attributes) else {}
    if kind == "text":
        parts.append(str(node.get("text", "")))
    elif kind == "hardBreak":
        parts.append("\n")
    elif kind in ("mention", "emoji", "status"):
        parts.append(str(known.get("text") or known.get("shortName") or ""))
    elif kind == "inlineCard":
        parts.append(str(known.get("url", "")))
    content = node.get("content")
    for child in content if is_array(content) else ():
        _walk(child, parts, depth + 1)
    if kind in _BLOCKS and parts and not parts[-1].endswith("\n"):
        parts.append("\n")


class _Storage(HTMLParser):
    _BREAKS: Final = frozenset(
        {"p", "br", "li", "tr", "div", "h1", "h2", "h3", "h4", "h5", "h6", "ac:structured-macro"}
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def unknown_decl(self, data: str) -> None:
        # Code blocks of the storage format are CDATA sections.
        if data.startswith("CDATA["):
            self.parts.append(data.removeprefix("CDATA["))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th"):
            self.parts.append(" ")
        elif tag in self._BREAKS:
            self.parts.append("\n")


def text_of_storage(markup: str) -> str:
    """Returns a page's storage format, or HTML, as plain text."""
    parser = _Storage()
    parser.feed(markup)
    parser.close()
    lines = [" ".join(line.split()) for line in "".join(parser.parts).splitlines()]
    return "\n".join(line for line in lines if line)
