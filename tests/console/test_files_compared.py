"""Two runs and their files side by side, over HTTP and in Chromium."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from taofold import Agent, tool
from taofold.testing import ScriptedModel
from tests.console.browser import seated
from tests.server.agents import act, finish
from tests.server.test_forks import FREE

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
EVIL = "<img src=x onerror=alert(1)>"


async def test_files_of_two_runs_are_shown_side_by_side(tmp_path: Path) -> None:
    """Mutants: the sides are exchanged; a line of a file becomes markup; the headers of git are
    shown; the runs have no ids; the table is a block, or too wide for a phone.
    """
    project = tmp_path / "project"
    project.mkdir()
    (project / "kept.txt").write_text("kept\n")

    @tool(tier=1, reversible=True)
    def put(path: str, content: str) -> str:
        """Write a file."""
        (project / path).write_text(content)
        return "written"

    script = [
        act("one", "put", path="a.txt", content=f"first\nsame\n{EVIL}\n"),
        finish(),
        act("two", "put", path="a.txt", content="second\nsame\n"),
        act("more", "put", path="b.txt", content="-- new\n"),
        finish(),
    ]
    agent = Agent(ScriptedModel(script), tools=[put], snapshots=project)
    async with seated(agent, tmp_path) as seat:
        runs: list[str] = []
        for _ in range(2):
            runs.append(await seat.client.start())
            await seat.client.until(runs[-1], "finished")
        one, two = runs
        answer = (await seat.client.get(f"/runs/{one}/files", params={"other": two})).json()
        assert answer["changes"] == [
            {"kind": "changed", "path": "a.txt"},
            {"kind": "added", "path": "b.txt"},
        ]
        missing = await seat.client.get(f"/runs/{one}/files", params={"other": "none"})
        assert missing.status_code == 404

        page = seat.page
        await page.set_viewport_size({"width": 1440, "height": 900})
        await seat.open(f"compare/{one}/{two}")
        await expect(page.locator(".files h2")).to_have_text("2 files differ")
        assert await page.locator(".files img").count() == 0
        rows = page.locator(".lines tr")
        texts = [await row.locator("td").all_text_contents() for row in await rows.all()]
        assert ["first", "second"] in texts
        assert ["same", "same"] in texts
        assert [EVIL, ""] in texts
        assert ["", "-- new"] in texts
        heads = await page.locator(".lines th").all_text_contents()
        assert [it for it in heads if not it.startswith("@@")] == ["a.txt", "b.txt"]
        wide = "node => node.getBoundingClientRect().width"
        whole = await page.locator(".files").evaluate(wide)
        assert await page.locator(".lines td").first.evaluate(wide) > whole / 3
        await expect(page.locator(".two thead th").first).to_contain_text(one)
        await expect(page.locator(".two thead th").last).to_contain_text(two)
        await seat.keep("files-compared-1440")
        await page.set_viewport_size({"width": 390, "height": 900})
        right = page.locator(".two td[data-run]").nth(1)
        edges = await right.evaluate("node => [node.getBoundingClientRect().right, innerWidth]")
        assert edges[0] <= edges[1]
        await seat.keep("files-compared-390")


async def test_runs_without_stored_files_have_no_such_section(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel([finish(), finish()]))
    async with seated(agent, tmp_path) as seat:
        runs = [await seat.client.start() for _ in range(2)]
        for run in runs:
            await seat.client.until(run, "finished")
        answer = await seat.client.get(f"/runs/{runs[0]}/files", params={"other": runs[1]})
        assert answer.json() == {"stored": False, "changes": [], "patch": ""}
        await seat.open(f"compare/{runs[0]}/{runs[1]}")
        await expect(seat.page.locator(".viewhead h1")).to_have_text("Two runs")
        await expect(seat.page.locator(".files")).to_have_count(0)


async def test_open_conflicts_and_missing_answers_are_shown(tmp_path: Path) -> None:
    """Mutants: the card is green or folds the conflict; the comparison omits it."""
    project = tmp_path / "project"
    project.mkdir()

    @tool(effect="read")
    def meddle() -> str:
        """Changes the caller's folder while the child works."""
        (project / "notes.txt").write_text("parent")
        return "done"

    helper = Agent(
        ScriptedModel(
            [
                act("one", "write_file", path="notes.txt", content="child"),
                act("two", "meddle"),
                finish("done two"),
            ]
        ),
        name="helper",
        tools=["files", meddle],
        worktree=True,
        policy=FREE,
    )
    script = [act("ask", "helper", goal="Write."), finish(), act("ask", "ask_user", question="?")]
    agent = Agent(
        ScriptedModel(script), tools=[helper], ask_user=True, snapshots=project, policy=FREE
    )
    (project / "notes.txt").write_text("before")
    async with seated(agent, tmp_path) as seat:
        one = await seat.client.start()
        await seat.client.until(one, "finished")
        await seat.open(f"runs/{one}")
        card = seat.page.locator(".call", has_text="helper").first
        text = "Open conflict: notes.txt (both changed the same lines); the child's version: /"
        await expect(card.locator(".conflict")).to_contain_text(text)
        await expect(card.locator(".conflict")).to_be_visible()
        await expect(card).to_have_class("call bad")
        colour = "node => getComputedStyle(node).backgroundColor"
        dots = [await it.evaluate(colour) for it in await card.locator(".dot").all()]
        assert dots[0] not in dots[1:], "successful calls of the child are green"
        await seat.page.set_viewport_size({"width": 1440, "height": 900})
        await seat.keep("conflict-1440")
        two = await seat.client.start()
        await seat.client.until(two, "waiting")
        await seat.page.click('[data-do="beside"]')
        await expect(seat.page.locator(".choice")).to_contain_text(two)
        await seat.keep("compare-choices-1440")
        await seat.open(f"compare/{one}/{two}")
        await expect(seat.page.locator(".conflict")).to_contain_text(text)
        await expect(seat.page.locator(".two tr").last.locator("td").last).to_have_text("no answer")
        await seat.keep("conflict-compared-1440")
