"""`web.search` and `web.scrape` over an exchangeable backend, and the readable text of HTML.

Search needs a backend: packages provide one through entry points of the group `taofold.search`,
code through `register_search`. `folder:DIR` searches text files.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from taofold.core.errors import ConfigError
from taofold.plugins import installed
from taofold.tools import Outcome, Tool
from taofold.tools.files import MOST_BYTES, capped, walk
from taofold.tools.http import Web
from taofold.tools.jail import Jail, jail
from taofold.tools.tool import make

GROUP: Final = "taofold.search"
HINT: Final = (
    "no search backend is configured: say `settings: {search: NAME}` in the agent file "
    "(`folder:DIR` searches text files below DIR; others come with packages or with "
    "taofold.files.actions.web.register_search)"
)
_MOST: Final = 20
_SNIPPET: Final = 300
_CHARS: Final = 16_000
_LARGE: Final = 1 << 20
_WORD: Final = re.compile(r"\w{2,}")
_SUFFIXES: Final = (".md", ".txt", ".rst", ".html", ".htm")


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search."""

    title: str
    url: str
    snippet: str = ""


class Search(Protocol):
    """A search backend. Raises `OSError` or `ValueError` for requests it cannot serve."""

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Returns at most `limit` hits, best first."""
        ...

    async def page(self, url: str) -> str | None:
        """Returns the text or HTML of a page that it knows. None gets it from the web."""
        ...


Factory: TypeAlias = Callable[[str, Path], Search]
"""`(text after the colon, work root) -> backend`. Raises `ConfigError`."""
_registered: Final[dict[str, Factory]] = {}


def register_search(name: str, factory: Factory) -> None:
    """Registers a backend for `search: name` and `name:argument`."""
    _registered[name] = factory


class Folder:
    """Searches the text files below a directory by frequency of the words.

    Files are reached as by the file tools: no link is followed, and places of authority do not
    exist.
    """

    def __init__(self, inside: Jail) -> None:
        self._jail = inside

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Returns the files with the most of the words, then with the most occurrences."""
        words = {word.lower() for word in _WORD.findall(query)}
        ranked: list[tuple[int, int, str, Hit]] = []
        for name in self._names():
            try:
                text = readable(self._text(name))
            except (OSError, ValueError):  # it vanished, or is too large
                continue
            lower = text.lower()
            counts = [lower.count(word) for word in words]
            if not any(counts):
                continue
            hit = Hit(_title(text, name), f"folder:{name}", _around(text, words))
            ranked.append((-sum(map(bool, counts)), -sum(counts), name, hit))
        return [entry[3] for entry in sorted(ranked, key=lambda entry: entry[:3])[:limit]]

    async def page(self, url: str) -> str | None:
        """Returns the file behind a hit."""
        name = url.removeprefix("folder:")
        if name == url:
            return None
        if not _is_shown(name):
            raise ValueError(f"{url!r} is not of this folder")
        return self._text(name)

    def _names(self) -> list[str]:
        entries = capped(walk(self._jail, (), 64))
        return [each.path for each in entries if each.kind == "file" and _is_shown(each.path)]

    def _text(self, name: str) -> str:
        # The beginning of a large file is enough to rank it.
        return self._jail.read(name, MOST_BYTES)[:_LARGE].decode("utf-8", "replace")


def _is_shown(name: str) -> bool:
    """Returns True for the path of a text file that is not hidden."""
    path = Path(name)
    return path.suffix in _SUFFIXES and not any(part.startswith(".") for part in path.parts)


def backend(name: str, root: Path) -> Search | None:
    """Returns the backend `name`, or None for "".

    Raises:
        ConfigError: There is no backend of this name.
    """
    kind, _, argument = name.partition(":")
    if not kind:
        return None
    if kind in _registered:
        return _registered[kind](argument, root)
    if kind == "folder":
        wrong = f"{argument!r} is no directory inside the work root {str(root)!r}"
        try:
            whole = jail(root)
            parts = whole.parts(argument)
            with whole.directory(parts):
                target = whole.root.joinpath(*parts)
        except (OSError, ValueError) as error:
            raise ConfigError(wrong) from error
        return Folder(jail(target))
    for entry in installed(GROUP):
        if entry.name == kind:
            factory: Factory = entry.load()
            return factory(argument, root)
    raise ConfigError(f"there is no search backend {kind!r}; {HINT}")


class Pages:
    """The two tools over one backend."""

    def __init__(self, search: Search | None, web: Web) -> None:
        self.backend, self.web = search, web

    async def search(self, query: str, limit: int = 5) -> Outcome:
        """Search the web.

        Args:
            query: The words to search for.
            limit: Maximum number of hits, up to 20.
        """
        if self.backend is None:
            return Outcome(HINT, "failure", "no search backend")
        try:
            hits = await self.backend.search(query, max(1, min(limit, _MOST)))
        except (OSError, ValueError) as error:
            return Outcome(f"the search failed: {error}", "failure")
        summary = f"{len(hits)} hits for {query!r}" + (f", first {hits[0].url}" if hits else "")
        return Outcome([asdict(hit) for hit in hits], extraction=summary)

    async def scrape(self, url: str, max_chars: int = 8_000) -> Outcome:
        """Get the readable text of a page.

        Args:
            url: The address of a hit, or any other address of the public web.
            max_chars: Maximum number of characters, up to 16,000.
        """
        try:
            page = await self.backend.page(url) if self.backend is not None else None
        except (OSError, ValueError) as error:
            return Outcome(f"{url!r} cannot be had: {error}", "failure")
        if page is None:
            got = await self.web.get(url)
            if got.status in ("failure", "timeout"):
                return got
            page = str(got.value)
        text = readable(page)
        most = max(1, min(max_chars, _CHARS))
        return Outcome(text[:most], "partial" if len(text) > most else "success", _title(text, url))


def web_tools(search: Search | None = None) -> tuple[Tool, ...]:
    """Returns `web.search` and `web.scrape`."""
    pages = Pages(search, Web())
    return (
        make(pages.search, name="web.search", effect="read", toolset="web"),
        make(pages.scrape, name="web.scrape", effect="read", toolset="web"),
    )


class _Text(HTMLParser):
    """Collects the readable text of HTML."""

    _SILENT: Final = frozenset({"script", "style", "noscript", "template", "svg", "head"})
    _BLOCKS: Final = frozenset(
        [
            "p",
            "div",
            "br",
            "li",
            "ul",
            "ol",
            "tr",
            "table",
            "section",
            "article",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "pre",
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        # Counted, because such elements may be nested (`head` with `style`).
        self._silent += tag in self._SILENT
        if tag in self._BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._SILENT and self._silent:
            self._silent -= 1
        if tag in self._BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def readable(page: str) -> str:
    """Returns the readable text of an HTML page. Other text is returned unchanged."""
    # HTML is detected at its beginning, so that text about HTML is not changed.
    if "<html" not in page[:2000].lower() and "<body" not in page[:2000].lower():
        return page
    parser = _Text()
    parser.feed(page)
    lines = [" ".join(line.split()) for line in "".join(parser.parts).split("\n")]
    return "\n".join([line for line in lines if line])


def _title(text: str, default: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), default)
    return first.strip("# ").strip()[:120]


def _around(text: str, words: set[str]) -> str:
    lower = text.lower()
    first = min([position for word in words if (position := lower.find(word)) >= 0], default=0)
    start = max(0, first - _SNIPPET // 3)
    return " ".join(text[start : start + _SNIPPET].split())
