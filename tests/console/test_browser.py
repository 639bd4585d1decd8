"""The console in Chromium: user actions, without errors in the page."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Route, expect

from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.text import milliseconds
from taofold.runtime import run as runs
from taofold.server.api import responses
from taofold.server.streams.events import EventProjection
from tests.console.browser import decide, press, seated
from tests.server.agents import Bench, act, batch, finish
from tests.server.live import settled
from tests.test_surfaces import REMARK, TEXT, Slowed, Tried

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_run_is_started_watched_approved_and_answered(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(
        batch("I look at both sides", ("look", {"at": "left"}), ("look", {"at": "right"})),
        act("People should know", "publish", "progress", text="both sides are fine"),
        finish("Both sides are fine."),
    )
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.start("How are the two sides?")
        card = page.locator(".card")
        await expect(card).to_contain_text("publish")
        await expect(page.locator(".step")).to_have_count(2)
        await expect(page.locator(".step .type")).to_have_text(["reasoning", "progress"])
        await expect(page.locator(".call .tool")).to_have_text(["look", "look"])
        await expect(page.locator("#asking")).to_have_text("1")
        assert ("publish", "both sides are fine") not in bench.done
        await seat.keep("waiting")
        await decide(card.locator("[data-do=approve]"))
        await expect(page.locator(".answer .text")).to_have_text("Both sides are fine.")
        await expect(page.locator(".note.approved")).to_contain_text("approved by ann")
        await expect(page.locator(".pill").first).to_have_text("finished")
        await expect(page.locator("#asking")).to_be_hidden()
        await expect(page.locator("#live")).to_contain_text("finished")
        await seat.keep("finished")
        assert bench.done.count(("publish", "both sides are fine")) == 1
        await seat.open("runs")
        row = page.locator(f"[data-run='{run}']")
        await expect(row).to_contain_text("How are the two sides?")
        await expect(row).to_contain_text("finished")
        await expect(row).to_contain_text("3 steps")


async def test_a_new_kind_of_event_and_a_new_fact_of_a_result_are_shown_without_a_line_here(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(act("I look", "look", at="left"), finish("seen"))
    async with seated(agent, tmp_path) as seat:
        page, run = seat.page, await seat.client.start("look")
        await seat.client.until(run)
        records = [
            e.Record(run, one["seq"], milliseconds(one["at"]), changed(one["event"]))
            for one in (await seat.client.get(f"/runs/{run}/records")).json()["items"]
        ]
        projection = EventProjection()
        told = [event for record in records for event in projection(record)]
        frames = [event.frame(number, str(event.seq)) for number, event in enumerate(told)]
        items = [responses.record(record).model_dump() for record in records]

        async def stream(route: Route) -> None:
            await route.fulfill(content_type="text/event-stream", body=b"".join(frames))

        async def log(route: Route) -> None:
            await route.fulfill(json={"items": items, "next": None})

        await page.route("**/events*", stream)
        await page.route("**/records*", log)
        await seat.open(f"runs/{run}")
        await expect(page.locator(".answer .text")).to_have_text("seen")
        note = page.locator(".note.failure")
        await expect(note).to_have_text(TEXT)
        await expect(page.locator(".step").first.locator(".note")).to_have_count(1)
        await page.locator(".call summary").click()
        await expect(page.locator(".inside h4").last).to_have_text(f"Result ({REMARK})")
        seq = next(record.seq for record in records if isinstance(record.event, Slowed))
        await seat.open(f"runs/{run}?at={seq}")
        await seat.read(f"event {seq} · slowed")
        await expect(page.locator(".state p.meta")).to_have_text("for 2.5 s: SECRET-TOKEN")
        await expect(page.locator(".tick.limit")).to_have_count(1)
        await seat.keep("new-kind")
        assert "slowed" not in "".join(file.read_text() for file in SCRIPTS.glob("*.js"))


SCRIPTS = Path(responses.__file__).parents[1] / "static" / "js"


def changed(raw: dict[str, Any]) -> Any:
    """Returns the event with unknown kinds in place of a reply and a result."""
    event = e.decode(json.dumps(raw))
    if isinstance(event, e.Replied) and not event.calls and "seen" in event.text:
        return Slowed(key=event.key, seconds=2.5, why="SECRET-TOKEN")
    if isinstance(event, e.Observed) and event.observation.result == "seen left":
        return e.Observed(key=event.key, observation=Tried("seen left", attempts=3, warmed_up=True))
    return event


async def test_what_a_screen_reader_is_told_is_not_wiped_out_by_what_comes_late(
    bench: Bench, tmp_path: Path
) -> None:
    """The answer to "approve" comes back long after the run has ended, as under load."""
    agent = bench.agent(act("I tell", "publish", text="x"), finish("told"))
    async with seated(agent, tmp_path) as seat:
        page, live = seat.page, seat.page.locator("#live")

        async def late(route: Route) -> None:
            response = await route.fetch()
            await expect(live).to_contain_text("The run has ended: finished")
            await route.fulfill(response=response)

        await page.route("**/approvals/*", late)
        await seat.start("Tell them")
        await expect(live).to_contain_text("Your decision is needed")
        await decide(page.locator(".card [data-do=approve]"))
        await expect(live).to_have_text(re.compile("publish approved$"))
        await expect(live).to_contain_text("The run has ended: finished")


async def test_a_denial_with_a_reason_reaches_the_model_and_the_tool_never_runs(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(
        act("I tell", "publish", text="x"),
        act("It was denied", "finish", "exception", answer="not told"),
    )
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await seat.start("Tell them")
        await page.click(".card .edit summary")
        await page.fill(".card [name=reason]", "not on a Friday")
        await decide(page.locator(".card [data-do=deny]"))
        await expect(page.locator(".note.denied")).to_contain_text("denied by ann: not on a Friday")
        await expect(page.locator(".answer .text")).to_have_text("not told")
        assert bench.done == []


async def test_changed_parameters_are_what_runs_and_broken_ones_are_not_sent(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(act("I tell", "publish", text="x"), finish("told"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await seat.start("Tell them")
        await page.click(".card .edit summary")
        await page.fill(".card [name=parameters]", "{text: broken")
        edit = page.locator(".card [data-do=edit]")
        await press(edit, page.locator(".card .wrong"))
        await expect(page.locator(".card .wrong")).to_contain_text("This is not JSON")
        await page.fill(".card [name=parameters]", json.dumps({"text": "better"}))
        await decide(edit)
        await expect(page.locator(".note.edited")).to_contain_text("edited by ann")
        await expect(page.locator(".answer .text")).to_have_text("told")
        assert bench.done == [("publish", "better")]


async def test_a_question_is_answered_in_the_tray_with_the_keyboard(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(
        act("I must ask", "ask_user", question="Which colour?"),
        act("I tell", "publish", text="blue"),
        finish("blue it is"),
        ask_user=True,
    )
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.start("Choose a colour")
        await expect(page.locator(".card")).to_contain_text("Which colour?")
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await expect(page.locator(".viewhead h1")).to_have_text("Approvals")
        await page.fill(".cards .card textarea", "blue")
        await decide(page.locator(".cards .card [data-do=answer]"))
        # Both cards may be there for a moment, so this names the whole list.
        await expect(page.locator(".cards .card h3")).to_have_text(["publish"])
        await page.locator("main").focus()
        await page.keyboard.press("a")  # picks the question
        assert bench.done == []
        await expect(page.locator(".card")).to_be_focused()
        # A card that has just appeared decides nothing.
        await expect(page.locator(".card [data-do=approve]")).to_be_enabled()
        await page.keyboard.press("a")  # and decides
        await seat.client.until(run)
        assert bench.done == [("publish", "blue")]
        await expect(page.locator(".empty h2")).to_have_text("Nothing waits for you")


async def test_a_reload_in_the_middle_loses_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.gate.clear()
    agent = bench.agent(
        act("first", "look"), act("second", "slow", "progress"), finish("all there")
    )
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await seat.start("Go slowly")
        await expect(page.locator(".call.running .tool")).to_have_text("slow")
        await page.reload()
        await expect(page.locator(".step")).to_have_count(2)
        await expect(page.locator(".call.running .tool")).to_have_text("slow")
        bench.gate.set()
        await expect(page.locator(".answer .text")).to_have_text("all there")
        await expect(page.locator(".step .number")).to_have_text(["1", "2", "3"])
        await page.reload()
        await expect(page.locator(".step .number")).to_have_text(["1", "2", "3"])
        await expect(page.locator(".answer .text")).to_have_text("all there")
        assert bench.done == [("look", "here"), ("slow", "x")]


async def test_connections_that_are_cut_in_the_middle_cost_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    bench.gate.clear()
    agent = bench.agent(act("first", "look"), act("second", "slow"), finish("all there"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url) if "/events" in one.url else None)
        await seat.start("Go on")
        await expect(page.locator(".call.running .tool")).to_have_text("slow")
        await expect(page.locator(".wire.live")).to_be_visible()
        for _ in range(2):
            before = len(asked)
            with seat.wire.cut():
                await expect(page.locator(".wire.lost")).to_have_text("reconnecting …")
            await expect(page.locator(".wire.live")).to_be_visible()
            assert len(asked) > before
        with seat.wire.cut():
            bench.gate.set()
        await expect(page.locator(".answer .text")).to_have_text("all there")
        await expect(page.locator(".step .number")).to_have_text(["1", "2", "3"])
        await expect(page.locator(".call .tool")).to_have_text(["look", "slow"])
        seat.wrong = [one for one in seat.wrong if "net::ERR" not in one]


async def test_time_travel_dims_what_came_later_and_shows_state_and_differences(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(act("first", "look"), act("second", "label", name="x"), finish("done"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await seat.start("Travel")
        await expect(page.locator(".done")).to_be_visible()
        await expect(page.locator("section.state h3")).to_have_text("State now")
        await seat.read("run finished")
        await page.locator("main").focus()
        for _ in range(3):
            await page.keyboard.press("{")
        await expect(page.locator(".where")).to_contain_text("event 0")
        await expect(page.locator(".step.later")).to_have_count(3)
        await expect(page.locator("section.state")).to_contain_text("State at event 0")
        for _ in range(5):
            await page.keyboard.press("]")
        await expect(page.locator(".step.later")).to_have_count(2)
        await page.keyboard.press("c")
        for _ in range(3):
            await page.keyboard.press("}")
        await expect(page.locator(".difference")).to_contain_text("steps.1.actions.0.tool")
        await expect(page.locator(".difference")).to_contain_text("label")
        await seat.keep("difference")
        await page.keyboard.press("Escape")
        await expect(page.locator(".step.later")).to_have_count(0)
        await expect(page.locator("section.state h3")).to_have_text("State now")


async def test_fork_from_here_goes_on_as_a_run_of_its_own(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(act("first", "look"), act("second", "label", name="x"), finish("done"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.start("Fork me")
        await expect(page.locator(".done")).to_be_visible()
        await seat.read("run finished")
        await page.locator("main").focus()
        for _ in range(3):
            await page.keyboard.press("{")
        for _ in range(6):
            await page.keyboard.press("]")
        await page.click("[data-do=fork]")
        await page.wait_for_url(lambda url: run not in url)
        await expect(page.locator(".done")).to_be_visible()
        new = page.url.rpartition("/")[2].partition("?")[0]
        items = (await seat.client.get("/runs")).json()["items"]
        assert {one["id"] for one in items} == {run, new}


async def test_a_child_run_is_nested_in_the_call_that_began_it(
    bench: Bench, tmp_path: Path
) -> None:
    helper = bench.agent(act("I look inside", "look", at="inside"), finish("seen inside"),
                         name="helper", tools=bench.safe)  # fmt: skip
    agent = bench.agent(act("Help me", "helper", goal="look"), finish("done"), tools=[helper])
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.start("Ask for help")
        nested = page.locator(".call .child")
        await expect(nested.locator(".thought").first).to_have_text("I look inside")
        await expect(page.locator(".story:not(.nested) > .step .number").first).to_have_text("1")
        await nested.locator("a").click()
        await expect(page.locator(".crumbs")).to_contain_text(f"child of {run}")
        await expect(page.locator(".answer, .done").first).to_be_visible()


async def test_text_of_runs_is_text_and_never_markup(bench: Bench, tmp_path: Path) -> None:
    bench_agent = bench.agent(
        act(EVIL, "look", at=EVIL),
        act("I tell", "publish", text=EVIL),
        finish(EVIL),
        name="<b>agent</b>",
    )
    async with seated({"evil <i>name</i>": bench_agent}, tmp_path) as seat:
        page = seat.page
        await seat.start(EVIL)
        await expect(page.locator(".card")).to_be_visible()
        await page.click(".call summary")
        await expect(page.locator("h1.goal")).to_have_text(EVIL)
        await expect(page.locator(".call pre").last).to_have_text(f"seen {EVIL}")
        for view in ("approvals", "runs"):
            await seat.open(view)
            await expect(page.locator("main")).to_contain_text("<img src=x")
        await page.go_back()
        await decide(page.locator(".card [data-do=approve]"))
        await expect(page.locator(".cards .empty")).to_be_visible()
        await seat.open("runs")
        await page.click(".entry")
        await expect(page.locator(".answer .text")).to_have_text(EVIL)
        assert await page.title() != "owned"
        assert await page.locator("main img, main script").count() == 0
        assert not any("onerror" in one for one in seat.wrong)


async def test_a_filter_offers_the_runs_that_are_not_loaded_yet(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(finish("done"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await seat.client.until(await seat.client.start("the first of all"))
        for number in range(50):
            await seat.client.start(f"later {number}")
        await seat.open("runs")
        await expect(page.locator(".entry")).to_have_count(50)
        await page.fill("#filter", "first of all")
        await expect(page.locator(".empty p")).to_have_text("None of the 50 loaded runs matches.")
        await press(page.get_by_text("Older runs"), page.locator(".entry"))
        await expect(page.locator(".entry")).to_have_count(1)


async def test_lists_filter_and_empty_states_say_what_to_do(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(finish("done"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await expect(page.locator(".empty h2")).to_have_text("No runs yet")
        for goal in ("paint the fence", "wash the car"):
            await seat.start(goal)
            await expect(page.locator(".done")).to_be_visible()
        await seat.open("runs")
        await expect(page.locator(".entry")).to_have_count(2)
        await page.keyboard.press("/")
        await page.keyboard.type("fence")
        await expect(page.locator(".entry")).to_have_count(1)
        await page.fill("#filter", "nothing like it")
        await expect(page.locator(".empty h2")).to_have_text("Nothing fits")
        await press(page.get_by_text("Show all runs"), page.locator(".entry"))
        await expect(page.locator(".entry")).to_have_count(2)
        await page.keyboard.press("Escape")
        await page.locator("main").focus()
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await expect(page.locator(".entry").nth(1)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("h1.goal")).to_have_text("paint the fence")
        await page.keyboard.press("?")
        await expect(page.locator("dialog .shortcuts")).to_contain_text("fork from here")


async def test_a_server_that_is_away_is_said_and_comes_back(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(finish("done"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page

        async def away(route: Any) -> None:
            await route.abort()

        await page.route("**/console/runs*", away)
        await expect(page.locator(".failed")).to_contain_text("cannot be reached")
        await page.unroute("**/console/runs*")
        # A poll of the page may come first.
        await press(page.get_by_text("Try again"), page.get_by_text("No runs yet"))
        seat.wrong = [one for one in seat.wrong if "ERR_FAILED" not in one]


async def test_a_run_that_was_shown_at_the_second_attempt_is_left_like_any_other(
    bench: Bench, tmp_path: Path
) -> None:
    bench.gate.clear()
    async with seated(bench.agent(act("wait", "slow"), finish("done")), tmp_path) as seat:
        page = seat.page
        run = await seat.client.start("Go slowly")

        async def away(route: Any) -> None:
            await route.abort()

        await page.route(f"**/runs/{run}", away)
        await seat.open(f"runs/{run}")
        await expect(page.locator(".failed")).to_contain_text("cannot be reached")
        await page.unroute(f"**/runs/{run}")
        await page.click("text=Try again")
        await expect(page.locator(".wire.live")).to_be_visible()
        await seat.open("runs")
        await settled(lambda: seat.client.server.streams == 0)
        assert (await seat.client.get(f"/runs/{run}")).json()["status"] == "running"
        bench.gate.set()
        seat.wrong = [one for one in seat.wrong if "ERR_FAILED" not in one]


async def test_an_idle_fork_is_shown_as_forked_and_can_be_resumed(
    bench: Bench, tmp_path: Path
) -> None:
    """Mutants: an idle run is shown as live; it has no button Resume."""
    async with seated(bench.agent(finish("done")), tmp_path) as seat:
        run = await seat.client.start("Go")
        await seat.client.until(run)
        await runs.fork(seat.client.server.log, run, "copy", at=0, now=clock())
        page = seat.page
        await seat.open("runs/copy")
        await expect(page.locator(".runhead .pill").first).to_have_text("forked")
        await settled(lambda: seat.client.server.streams == 1)
        await expect(page.locator(".wire")).to_have_text("")
        await expect(page.locator('[data-do="cancel"]')).to_be_hidden()
        await page.click('[data-do="resume"]')
        await expect(page.locator(".runhead .pill").first).to_have_text("finished")
        await expect(page.locator('[data-do="resume"]')).to_be_hidden()


@pytest.mark.parametrize("width", [360, 768])
async def test_narrow_screens_need_no_sideways_scrolling(
    bench: Bench, tmp_path: Path, width: int
) -> None:
    long = "a_very_long_identifier_" * 12
    agent = bench.agent(act(long, "look", at=long), act("x", "publish", text=long), finish(long))
    size = {"width": width, "height": 740}
    async with seated(agent, tmp_path, viewport=size, color_scheme="dark") as seat:
        page = seat.page
        await seat.start(f"Look at {long}")
        await expect(page.locator(".card")).to_be_visible()
        for view in ("", "runs", "approvals", "loops", "patterns", "learning"):
            if view:
                await seat.open(view)
                await expect(page.locator("h1, h2").first).to_be_visible()
                await expect(page.locator("main .loading")).to_have_count(0)
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{view or 'run'} is {wide} px wide"
        seat.wrong = [one for one in seat.wrong if "404" not in one]


@pytest.mark.parametrize("address", ["constructor", "__proto__/x", "toString", "runs2"])
async def test_an_address_that_is_no_view_is_the_list_of_runs(
    bench: Bench, tmp_path: Path, address: str
) -> None:
    async with seated(bench.agent(finish("done")), tmp_path) as seat:
        await seat.page.goto(f"{seat.url}/#/{address}")
        await expect(seat.page.locator(".viewhead h1")).to_have_text("Runs")
        await seat.open("approvals")


async def test_a_prompt_is_shown_with_what_is_new_in_it(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(act("I look", "look", at="left"), finish("done"))
    async with seated(agent, tmp_path) as seat:
        run = await seat.client.start("look around")
        await seat.client.until(run)
        await seat.open(f"runs/{run}")
        await seat.page.click("[data-do=prompts]")
        await expect(seat.page.locator(".lead").first).to_contain_text("call 2 of 2")
        await expect(seat.page.locator(".prompt > details > summary").first).to_contain_text(
            "2 messages as in the call before"
        )
        await expect(seat.page.locator(".prompt > .message.new")).to_have_count(2)
        await seat.keep("prompt")
        await seat.page.keyboard.press("[")
        await expect(seat.page.locator(".lead").first).to_contain_text("call 1 of 2")
        await expect(seat.page.locator(".prompt > .message.new")).to_have_count(0)
        await expect(seat.page.locator(".prompt > .message")).to_have_count(2)


async def test_a_run_waits_for_the_list_of_agents_and_starts_the_chosen_one(
    bench: Bench, tmp_path: Path
) -> None:
    """Mutant: the dialog sends an empty name of the agent until the list is there."""
    agents = {"first": bench.agent(finish("from the first")), "second": bench.agent(finish("2"))}
    async with seated(agents, tmp_path) as seat:
        page, pressed = seat.page, asyncio.Event()
        run = await seat.client.start("again", agent="second")
        await seat.client.until(run)

        async def late(route: Route) -> None:
            await pressed.wait()
            await route.continue_()

        await seat.open(f"runs/{run}")
        await page.route("**/agents", late)
        await page.click("[data-do=again]")
        await page.click("dialog button.primary")
        await expect(page.locator("dialog button.primary")).to_be_disabled()
        assert len((await seat.client.get("/runs")).json()["items"]) == 1
        pressed.set()
        await page.wait_for_url(lambda url: "#/runs/" in url and run not in url)
        started = page.url.rpartition("/")[2]
        assert (await seat.client.get(f"/runs/{started}")).json()["agent"] == "second"


async def test_the_words_of_a_decided_card_stay_when_it_leaves(
    bench: Bench, tmp_path: Path
) -> None:
    """Mutant: the tray removes a card without its words."""
    agent = bench.agent(act("I tell", "publish", text="x"), finish("told"))
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        await page.clock.install()
        await page.reload()
        await seat.client.until(await seat.client.start(), "waiting")
        await seat.open("approvals")
        approve = page.locator(".card [data-do=approve]")
        await expect(approve).to_be_enabled()
        await page.clock.pause_at(await page.evaluate("Date.now()") + 3_600_000)
        await decide(approve)
        await expect(page.locator(".card.settled")).to_be_visible()
        await page.clock.run_for(150)
        await expect(page.locator(".cards .card")).to_have_count(0)
        words = page.locator(".toast", has_text="publish: You approved this. The run continues.")
        await page.clock.run_for(4_500)
        await expect(words).to_be_visible()
        await seat.keep("decided")
        await page.clock.run_for(1_000)
        await expect(words).to_have_count(0)


async def test_the_order_and_costs_of_steps_do_not_depend_on_what_arrives_first(
    bench: Bench, tmp_path: Path
) -> None:
    """Mutants: a step is added at the end; costs that arrive before their step are dropped."""
    async with seated(bench.agent(finish()), tmp_path) as seat:
        told = await seat.page.evaluate(
            """async () => {
                const { trace } = await import("/static/js/trace.js");
                const noted = (seq, node) => ({
                    seq, at: 0, event: { e: "noted", kind: "branch", data: { node, to: "x" } },
                });
                const AT = "2026-01-01T00:00:00Z";
                const thought = { type: "goal", content: "look", because: [] };
                const thinking = (step, seq) => ({
                    type: "thinking", step, seq, run: "r", timestamp: AT, thought,
                });
                const root = document.createElement("section");
                const shown = trace(root, "r");
                for (const record of [
                    noted(2, "first"),
                    { seq: 4, event: { e: "replied", ms: 1, usage: { input_tokens: 7 } } },
                    { seq: 5, at: 0, event: { e: "proposed" } },
                    noted(8, "last"),
                ]) shown.timing(record);
                shown.tell(thinking(1, 5));
                shown.tell(thinking(2, 9));
                return [...root.querySelector(".story").children].map((one) => one.textContent);
            }"""
        )
    first, step, last, second = told
    assert (first[:5], last[:4]) == ("first", "last")
    assert step.startswith("1goal")
    assert "7 tokens" in step
    assert second.startswith("2goal")
    assert "tokens" not in second
