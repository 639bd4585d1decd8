"""The console's display of questions in a call, of reports, and of retracted text."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from taofold import Limits, RunContext, tool
from taofold.clocks import clock
from taofold.runtime.run import rewind
from taofold.tools import InputRequired
from tests.console.browser import decide, press, seated
from tests.server.agents import Bench, act, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "title": "Colour", "enum": ["red", "<b>blue</b>"]},
        "walls": {"type": "integer", "minimum": 1, "maximum": 4},
        "note": {"type": "string", "description": "anything else"},
        "gloss": {"type": "boolean", "default": True},
        "rooms": {"type": "array", "items": {"enum": ["hall", "kitchen"]}},
    },
    "required": ["colour", "walls"],
}


async def test_the_form_of_a_tool_is_filled_in_field_by_field(tmp_path: Path) -> None:
    heard: list[Any] = []

    @tool(effect="idempotent", tier=1, reversible=True)
    def varnish(ctx: RunContext[Any]) -> str:
        """Varnish."""
        if ctx.answer is None:
            raise InputRequired("Varnish it?")
        heard.append(ctx.answer.accepted)
        return "varnished"

    @tool(effect="idempotent", tier=1, reversible=True)
    def ask(ctx: RunContext[Any]) -> str:
        """Ask."""
        if ctx.answer is None:
            raise InputRequired("How shall I paint?", form=FORM)
        heard.append(json.loads(ctx.answer.text))
        return "asked"

    agent = Bench().agent(act("I ask", "ask"), act("I varnish", "varnish"), finish("painted"),
                          tools=[ask, varnish])  # fmt: skip
    async with seated(agent, tmp_path) as seat:
        page, card = seat.page, seat.page.locator(".card:not(.settled)")
        await seat.start("Paint")
        await expect(card).to_contain_text("How shall I paint?")
        await expect(card.locator("[data-do=done]")).to_have_count(0)
        await press(card.locator("[data-do=answer]"), card.locator(".wrong"))
        await expect(card.locator(".wrong")).to_contain_text("Fill in")
        await card.locator("[name=colour]").select_option(label="<b>blue</b>")
        await card.locator("[name=walls]").fill("3")
        await card.locator("[name=rooms]").select_option(label="kitchen")
        await seat.keep("form")
        await decide(card.locator("[data-do=answer]"))
        await expect(card).to_contain_text("Varnish it?")
        await decide(card.locator("[data-do=deny]"))
        await expect(page.locator(".answer .text")).to_have_text("painted")
        expected = {"colour": "<b>blue</b>", "walls": 3, "gloss": True, "rooms": ["kitchen"]}
        assert heard == [expected, False]


async def test_what_a_tool_says_of_its_work_stands_beside_its_call(tmp_path: Path) -> None:
    go = asyncio.Event()

    @tool(effect="read")
    async def dig(ctx: RunContext[Any]) -> str:
        """Dig."""
        ctx.report("first spadeful")
        while not go.is_set():
            ctx.report("<b>half</b> way")
            await asyncio.sleep(0.02)
        return "dug"

    agent = Bench().agent(act("I dig", "dig"), finish("dug"), tools=[dig])
    async with seated(agent, tmp_path) as seat:
        await seat.start("Dig")
        how = seat.page.locator(".call .how")
        await expect(how).to_have_text("running · <b>half</b> way")
        go.set()
        await expect(how).to_have_text("")


async def test_what_a_rewind_took_back_is_folded_away_and_the_run_is_told_on(
    tmp_path: Path,
) -> None:
    bench = Bench()
    agent = bench.agent(
        act("one", "look", at="a"), act("two", "look", at="b"), act("three", "publish", text="c"),
        finish("published"),
    )  # fmt: skip
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.start("Go back")
        await expect(page.locator(".card")).to_be_visible()
        log = seat.client.server.log
        records = await log.read(run)
        first = next(one.seq for one in records if type(one.event).__name__ == "Observed")
        await rewind(log, run, to=first, now=clock())
        await seat.client.post(f"/runs/{run}/resume")
        for again in range(2):
            await expect(page.locator(".undone summary").first).to_have_text("2 steps taken back")
            await expect(page.locator(".trace > .story > .step .number")).to_have_text(
                ["1", "2", "3"]
            )
            await expect(page.locator(".undone .card button:not(:disabled)")).to_have_count(0)
            await expect(page.locator(".trace > .story > .step .call .tool")).to_have_count(2)
            if not again:
                await seat.keep("rewound")
                await page.reload()
        await decide(page.locator(".trace > .story > .step .card [data-do=approve]"))
        await expect(page.locator(".answer .text")).to_have_text("published")
        assert bench.done.count(("publish", "c")) == 1


async def test_a_long_run_is_shown_without_laying_it_out_for_each_event(tmp_path: Path) -> None:
    bench = Bench()
    steps = 300  # each is sent in three events
    replies = [act(f"step {number}", "look", at=str(number)) for number in range(steps)]
    agent = bench.agent(*replies, finish("at last"), limits=Limits(steps=500, tool_calls=500))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start("a long way")
        await seat.client.until(run)
        states: list[str] = []
        page.on("request", lambda one: states.append(one.url) if "/state?" in one.url else None)
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Performance.enable")
        before = await layouts(devtools)
        await seat.open(f"runs/{run}")
        await expect(page.locator(".done")).to_be_visible()
        await expect(page.locator("section.state h3")).to_have_text("State now")
        assert await layouts(devtools) - before < 2 * steps
        states.clear()
        await page.evaluate("""() => {
            const rail = document.querySelector(".rail input");
            for (let at = 0; at <= 200; at += 10) {
                rail.value = at;
                rail.dispatchEvent(new Event("input"));
            }
        }""")
        await expect(page.locator("section.state h3")).to_have_text("State at event 200")
        assert len(states) == 1


async def layouts(devtools: Any) -> int:
    """Counts the layouts of the page so far."""
    said = await devtools.send("Performance.getMetrics")
    return next(int(one["value"]) for one in said["metrics"] if one["name"] == "LayoutCount")


HIDDEN = "safe\u202e\u2066gnp.sh\u200bx\u200dy\x1b[8m\U000e0041 end"
SHOWN = "safe\\u202e\\u2066gnp.sh\\u200bx\\u200dy\\u001b[8m\\udb40\\udc41 end"


async def test_what_a_person_decides_on_hides_and_reorders_nothing(tmp_path: Path) -> None:
    """Mutants: text enters the page unescaped; the edit is shown in place of the original."""
    bench = Bench()
    agent = bench.agent(
        act(f"I publish {HIDDEN} \N{MAN}\u200d\N{WOMAN}", "publish", text=HIDDEN),
        act("I comment", "comment", text=HIDDEN),
        finish(HIDDEN),
    )
    async with seated(agent, tmp_path) as seat:
        page, card = seat.page, seat.page.locator(".card:not(.settled)")
        await seat.start("Publish")
        await expect(card.locator(".parameters")).to_contain_text(SHOWN)
        await expect(page.locator(".story")).to_contain_text("\N{MAN}\u200d\N{WOMAN}")
        await decide(card.locator("[data-do=approve]"))
        # Until its decision arrives, the first card is still there.
        await expect(page.locator(".card:not(.settled) h3")).to_have_text(["comment"])
        await expect(card.locator(".parameters")).to_contain_text(SHOWN)
        await card.locator(".edit summary").click()
        written = card.locator("textarea[name=parameters]")
        assert "\\u202e" in await written.input_value()
        await decide(card.locator("[data-do=edit]"))
        await expect(page.locator(".done")).to_be_visible()
        whole = await page.inner_text("body")
        assert not {"\u202e", "\u2066", "\u200b", "\x1b", "\U000e0041"}.intersection(whole)
    assert [done[1] for done in bench.done] == [HIDDEN, HIDDEN], "something else was done"
