"""Search and scraping over an exchangeable backend; memory; types as files write them."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from taofold.core.errors import ConfigError
from taofold.files.actions.tools import recall, store
from taofold.files.actions.web import Folder, Hit, backend, readable, register_search, web_tools
from taofold.files.types import NoType, type_of
from taofold.tools import Outcome, RunContext
from taofold.tools.jail import jail

pytestmark = pytest.mark.anyio


async def call(tool: Any, **parameters: Any) -> Outcome:
    return await tool.bind(parameters).run(RunContext(None))


async def test_a_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Otters\nOtters hold hands. Otters swim.")
    (tmp_path / "b.txt").write_text("otters once")
    (tmp_path / "c.bin").write_text("otters otters otters")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "d.md").write_text("otters")
    search, scrape = web_tools(Folder(jail(tmp_path)))
    hits = (await call(search, query="otters hands")).value
    assert [hit["url"] for hit in hits] == ["folder:a.md", "folder:b.txt"]
    assert hits[0]["title"] == "Otters"
    page = await call(scrape, url=hits[0]["url"])
    assert "hold hands" in page.value
    short = await call(scrape, url=hits[0]["url"], max_chars=5)
    assert (short.status, short.value) == ("partial", "# Ott")
    assert (await call(search, query="zebra")).value == []


@pytest.mark.parametrize(
    "url", ["folder:../secret.md", "folder:/etc/hosts.md", "folder:gone.md", "folder:.git/a.md"]
)
async def test_a_page_outside_the_folder_is_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "in" / ".git").mkdir(parents=True)
    (tmp_path / "in" / ".git" / "a.md").write_text("hidden")
    (tmp_path / "secret.md").write_text("secret")
    scrape = web_tools(Folder(jail(tmp_path / "in")))[1]
    assert (await call(scrape, url=url)).status == "failure"


async def test_links_and_places_of_authority_are_not_searched(tmp_path: Path) -> None:
    """A committed link would read the log's folder or a token. Mutant: `path.open` by name."""
    (tmp_path / ".taofold").mkdir()
    (tmp_path / ".taofold" / "secret.txt").write_text("otters")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "faq.md").symlink_to(tmp_path / ".taofold" / "secret.txt")
    (tmp_path / "linked").symlink_to(tmp_path / ".taofold")
    found = backend("folder:.", tmp_path)
    assert found is not None
    search, scrape = web_tools(found)
    assert (await call(search, query="otters")).value == []
    for url in ("folder:docs/faq.md", "folder:.taofold/secret.txt", "folder:linked/secret.txt"):
        assert (await call(scrape, url=url)).status == "failure"
    for name in (".taofold", "linked", "docs/faq.md", "..", "/etc", "absent"):
        with pytest.raises(ConfigError, match="is no directory inside the work root"):
            backend(f"folder:{name}", tmp_path)


async def test_without_a_backend_the_hint_says_what_to_do() -> None:
    search, scrape = web_tools()
    outcome = await call(search, query="x")
    assert outcome.status == "failure"
    assert "settings: {search: NAME}" in outcome.value
    assert (await call(scrape, url="http://127.0.0.1/")).status == "failure"


async def test_a_backend_of_ones_own_is_used(tmp_path: Path) -> None:
    class Mine:
        async def search(self, query: str, limit: int) -> list[Hit]:
            if query == "down":
                raise OSError("no line")
            return [Hit(f"{query} {limit}", "mine:1")]

        async def page(self, url: str) -> str | None:
            return "<html><body><p>One</p><script>no</script><p>Two  three</p></body></html>"

    register_search("mine", lambda argument, root: Mine())
    search, scrape = web_tools(backend("mine:x", tmp_path))
    assert (await call(search, query="q", limit=99)).value[0]["title"] == "q 20"
    assert "no line" in (await call(search, query="down")).value
    assert (await call(scrape, url="mine:1")).value == "One\nTwo three"


def test_a_backend_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert backend("", tmp_path) is None
    for name in ("nothing", "folder:gone", "folder:../.."):
        with pytest.raises(ConfigError):
            backend(name, tmp_path)


def test_text_that_is_no_page_stays_as_it_is() -> None:
    assert readable("a < b\n  c") == "a < b\n  c"


def test_memory_keeps_values_by_name() -> None:
    kept = store(RunContext(None), "a", [1])
    assert kept.update == ("memory.a", [1])
    ctx: RunContext[Any] = RunContext(None, data={"memory.a": [1], "other": 2})
    assert recall(ctx, "a").value == [1]
    assert recall(ctx, "b", default=3).value == 3
    gone = recall(ctx, "other")
    assert gone.status == "failure"
    assert "['a']" in gone.value


@pytest.mark.parametrize(
    ("written", "good", "bad"),
    [
        ("str", "a", 1),
        ("int?", None, "x"),
        ("int | null", None, "x"),
        ("list[int]", [1], ["x"]),
        ("list[list[str]]", [["a"]], ["a"]),
        ("dict[str, int]", {"a": 1}, {"a": "x"}),
        (["int"], [1], ["x"]),
        ({"a": "int", "b?": "str"}, {"a": 1}, {"b": "x"}),
        ({"a": {"b": "int"}}, {"a": {"b": 1}}, {"a": {"b": "x"}}),
        ({"type": "str"}, {"type": "x"}, {"type": 1}),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array"}},
             "required": ["a"]},
            {"a": 1},
            {"b": []},
        ),
        ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
        ({"type": ["string", "null"]}, None, 1),
        ({"type": "string", "enum": ["a", "b"]}, "a", "c"),
        ("any", {"x": 1}, ...),
    ],
)  # fmt: skip
def test_a_type_is_read(written: Any, good: Any, bad: Any) -> None:
    adapter = TypeAdapter(type_of(written))
    adapter.validate_python(good)
    if bad is not ...:
        with pytest.raises(ValidationError):
            adapter.validate_python(bad, strict=True)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("strr", ()),
        (3, ()),
        (["int", "str"], ()),
        ({"a": {"b": "intt"}}, ("a", "b")),
        ({"_a": "int"}, ("_a",)),
        ({"type": "object", "properties": {"a": {"type": "x"}}}, ("properties", "a")),
    ],
)
def test_what_is_no_type_is_told_with_its_place(written: Any, path: tuple[str, ...]) -> None:
    with pytest.raises(NoType) as caught:
        type_of(written)
    assert caught.value.path == path
