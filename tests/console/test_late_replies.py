"""Late replies, in Chromium: they show no older state and replace no typed text.

Nothing is sent twice. Each test holds a reply until the page has done something else.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import APIResponse, Locator, Page, Request, Route, expect

from taofold import Agent, Policy
from taofold.core.values import Reply
from taofold.testing import FunctionModel
from tests.console.browser import Seat, seated
from tests.server.agents import Bench, act, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


FRAMES = """async () => {
  for (let n = 0; n < 30; n += 1) await new Promise((go) => requestAnimationFrame(go));
}"""
"""Half a second of frames, in which the page handles a reply."""
CAREFUL = Policy(autonomy="conservative")


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Held:
    """Requests to a path. The reply of the first one waits for `release`."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.count = 0
        self.arrived = asyncio.Event()
        self.delivered = asyncio.Event()

    async def take(self, route: Route) -> None:
        """Answers a request. The server has answered the first one before it is held."""
        self.count += 1
        if self.count > 1:
            await route.continue_()
            return
        response: APIResponse = await route.fetch()
        self.arrived.set()
        await self.free.wait()
        await route.fulfill(response=response)
        self.delivered.set()


@asynccontextmanager
async def held(page: Page, path: str) -> AsyncIterator[Held]:
    """Holds the reply to the next request whose address matches `path`."""
    one = Held()
    pattern = re.compile(path)
    await page.route(pattern, one.take)
    try:
        yield one
    finally:
        one.free.set()
        if one.arrived.is_set():
            await one.delivered.wait()
        await page.unroute(pattern, one.take)


async def deliver(one: Held, page: Page) -> None:
    """Delivers the held reply, and waits until the page has handled it."""
    one.free.set()
    await one.delivered.wait()
    await page.evaluate(FRAMES)


async def approve(seat: Seat, run: str) -> None:
    """Approves the one question of a run beside the page."""
    one = await seat.client.pending(run)
    answer = await seat.client.post(f"/approvals/{one['id']}", {"decision": "approve"})
    assert answer.status_code == 202, answer.text


def answering(policy: Policy = CAREFUL) -> Agent:
    """Returns an agent that answers at once."""
    return Agent(FunctionModel(lambda _: Reply("done")), policy=policy, strategy="direct")


async def test_a_late_policy_does_not_replace_what_was_typed(tmp_path: Path) -> None:
    async with seated(answering(), tmp_path) as seat:
        page = seat.page
        await seat.open("policy")
        text = page.locator("[name=policy]")
        await expect(text).to_have_value(re.compile("autonomy"))
        async with held(page, r"/policy\?") as late:
            await page.click("text=Start again")
            await late.arrived.wait()
            await text.fill("deny: [write]")
            await deliver(late, page)
            await expect(text).to_have_value("deny: [write]")


async def test_late_verdicts_replace_neither_newer_ones_nor_a_new_start(tmp_path: Path) -> None:
    async with seated(answering(), tmp_path) as seat:
        page = seat.page
        await seat.client.until(await seat.client.start(), "finished")
        await seat.open("policy")
        text, result = page.locator("[name=policy]"), page.locator("[data-result]")
        await expect(text).to_have_value(re.compile("autonomy"))
        for newer in ("Test", "Start again"):
            async with held(page, "/policy/test$") as late:
                await text.fill("deny: [older]")
                await page.click("[data-do=test]")
                await late.arrived.wait()
                await text.fill("deny: [newer]")
                await page.click(f"button:text-is('{newer}')")
                if newer == "Test":
                    await expect(result).to_contain_text("deny.newer")
                await deliver(late, page)
                if newer == "Test":
                    await expect(result).to_contain_text("deny.newer")
                else:
                    await expect(page.locator(".verdicts > *")).to_have_count(0)


async def test_late_runs_of_another_status_are_not_shown(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(finish())
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start("one that ends")
        await seat.client.until(run, "finished")
        await seat.open("runs")
        rows = page.locator("li .row")
        await expect(rows).to_have_count(1)
        async with held(page, r"/console/runs\?status=finished") as late:
            await page.select_option("#status", "finished")
            await late.arrived.wait()
            await page.select_option("#status", "failed")
            await expect(page.locator(".list")).to_contain_text("Nothing fits")
            await watched(page.locator(".list"))
            await deliver(late, page)
            assert await seen(page) == []


async def watched(node: Locator) -> None:
    """Records each row and each card that appears in `node`."""
    await node.evaluate(
        """(node) => {
          window.rows = [];
          const watch = () => {
            const found = node.querySelectorAll("[data-run], .card");
            window.rows.push(...[...found].map((one) => one.textContent));
          };
          new MutationObserver(watch).observe(node, { childList: true, subtree: true });
        }"""
    )


async def seen(page: Page) -> list[str]:
    """Returns the texts that appeared."""
    rows: list[str] = await page.evaluate("window.rows")
    return rows


async def test_a_late_state_of_a_run_does_not_replace_its_end(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(act("I ask", "publish", text="x"), finish())
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.open(f"runs/{run}")
        pill = page.locator(".title-side .pill").first
        await expect(pill).to_have_text("waiting")
        await seat.read("parked")
        async with held(page, rf"/runs/{run}$") as late:
            await seat.client.post(f"/runs/{run}/steer", {"text": "hurry"})
            await late.arrived.wait()
            await approve(seat, run)
            await seat.client.until(run, "finished")
            await expect(page.locator(".trace")).to_contain_text("forty-two")
            await page.evaluate(FRAMES)
            await deliver(late, page)
            await expect(pill).to_have_text("finished")


async def test_a_session_shows_each_turn_once_and_keeps_what_is_typed(tmp_path: Path) -> None:
    async with seated(answering(), tmp_path) as seat:
        page = seat.page
        await seat.client.until(await seat.client.start("first", session="talk"), "finished")
        async with held(page, r"/runs/[^/?]+$") as late:
            await seat.open("sessions/talk")
            await late.arrived.wait()
            await page.fill("#message", "second")
            async with held(page, r"/runs$") as sending:
                await page.click(".compose button")
                await sending.arrived.wait()
                await page.fill("#message", "a third thought")
                sending.free.set()
                await sending.delivered.wait()
            await expect(page.locator(".turn", has_text="second")).to_have_count(1)
            await deliver(late, page)
        await expect(page.locator(".turn")).to_have_count(2)
        await expect(page.locator("#message")).to_have_value("a third thought")


async def test_a_message_to_a_run_is_sent_once(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(act("I ask", "publish", text="x"), finish())
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        sent: list[str] = []

        def hear(request: Request) -> None:
            if request.url.endswith("/steer"):
                sent.append(request.url)

        page.on("request", hear)
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.open(f"runs/{run}")
        async with held(page, "/steer$") as late:
            await page.fill("#steer", "hurry")
            await page.press("#steer", "Enter")
            await late.arrived.wait()
            await page.press("#steer", "Enter")
            await page.fill("#steer", "hurry more")
            await page.press("#steer", "Enter")
            await deliver(late, page)
            await expect(page.locator("#steer")).to_have_value("hurry more")
        assert len(sent) == 1


async def test_a_run_is_forked_once(bench: Bench, tmp_path: Path) -> None:
    async with seated(bench.agent(finish()), tmp_path) as seat:
        page = seat.page
        run = await seat.client.start()
        await seat.client.until(run, "finished")
        await seat.open(f"runs/{run}")
        await seat.read("run finished")
        async with held(page, "/fork$") as late:
            await page.keyboard.press("f")
            await late.arrived.wait()
            await page.keyboard.press("f")
            await page.click("[data-do=fork]")
            await deliver(late, page)
            await page.wait_for_url(lambda url: run not in url)
            assert late.count == 1


async def test_a_late_prompt_does_not_replace_the_chosen_one(bench: Bench, tmp_path: Path) -> None:
    agent = bench.agent(act("a", "look", path="x"), act("b", "look", path="y"), finish())
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start()
        await seat.client.until(run, "finished")
        await seat.open(f"prompts/{run}?n=1")
        lead = page.locator(".viewhead .lead")
        await expect(lead).to_contain_text("call 1 of 3")
        async with held(page, r"/prompt\?n=2") as late:
            await page.keyboard.press("]")
            await late.arrived.wait()
            await page.keyboard.press("]")
            await expect(lead).to_contain_text("call 3 of 3")
            await deliver(late, page)
            await expect(lead).to_contain_text("call 3 of 3")


async def test_a_late_list_of_questions_does_not_bring_a_decided_one_back(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(act("I ask", "publish", text="x"), finish())
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.open("approvals")
        await expect(page.locator(".cards .card")).to_have_count(1)
        async with held(page, "/approvals$") as late:
            await late.arrived.wait()
            await approve(seat, run)
            await seat.client.until(run, "finished")
            await page.evaluate("document.dispatchEvent(new CustomEvent('decided'))")
            await expect(page.locator(".cards .card")).to_have_count(0)
            await watched(page.locator(".cards"))
            await deliver(late, page)
            assert await seen(page) == []


async def test_the_end_of_a_request_does_not_draw_the_next_page_again(
    bench: Bench, tmp_path: Path
) -> None:
    agent = bench.agent(act("I ask", "publish", text="x"), finish())
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.client.post(f"/runs/{run}/cancel")
        await seat.client.until(run, "cancelled")
        await seat.open(f"runs/{run}")
        text = page.locator("[name=policy]")
        async with held(page, "/resume$") as late:
            await page.click("[data-do=resume]")
            await late.arrived.wait()
            await seat.open("policy")
            await expect(text).to_have_value(re.compile("autonomy"))
            await text.fill("deny: [write]")
            await deliver(late, page)
            await expect(page.locator(".toast")).to_contain_text("The run continues.")
            await expect(text).to_have_value("deny: [write]")


async def test_a_failed_poll_keeps_what_is_written_in_a_card(bench: Bench, tmp_path: Path) -> None:
    """Mutant: the failure replaces the cards."""
    agent = bench.agent(act("I ask", "publish", text="x"), finish())
    async with seated(agent, tmp_path) as seat:
        page, failing = seat.page, True

        async def refuse(route: Route) -> None:
            await (route.abort() if failing else route.continue_())

        await seat.client.until(await seat.client.start(), "waiting")
        await seat.open("approvals")
        await page.click(".card summary >> text=Change")
        reason = page.locator(".card [name=reason]")
        await reason.fill("half a sentence")
        await page.route(re.compile("/approvals$"), refuse)
        await expect(page.locator(".failed")).to_be_visible()
        await expect(reason).to_have_value("half a sentence")
        failing = False
        await expect(page.locator(".failed")).to_have_count(0)
        await expect(reason).to_have_value("half a sentence")
        seat.wrong.clear()
