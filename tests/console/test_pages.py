"""Every page of the console: at three widths, in both themes, by keyboard, and checked by axe.

The screenshots are stored with the other results for review.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from taofold.clocks import clock
from taofold.core.text import iso
from taofold.evals import Case, evaluate
from taofold.evals.report_files import store_report
from taofold.log.journal import MemoryJournal
from taofold.testing.models import ScriptedModel
from tests.console import node
from tests.console.browser import Seat, decide, seated
from tests.console.test_accessible import faults
from tests.console.test_files import STATIC
from tests.console.test_learning_views import learnt
from tests.files.flow.kit import flow
from tests.server.agents import Bench, act, batch, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
WIDTHS = (360, 768, 1280)
ANSWER = """# Checkout is red

Two jobs failed, **both** in `payments`, see https://ci.example.org/build/4711-with-a-long-name.

| job | since | why |
|---|---|---|
| unit | 09:12 | `AssertionError: expected 200, got 503` |
| contract | 09:14 | the same |

1. Restart the gateway
2. Run `make contract`

> It was green before 09:10.

```python
assert response.status_code == 200, "a line of code that is longer than a phone is wide, by far"
```
"""

OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = (node) => {
    for (let up = node; up && up !== document.body; up = up.parentElement)
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return true;
    return false;
  };
  const out = [...document.querySelectorAll('body *')].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width && box.right > wide + 1 && !scrolls(node) && !node.closest('.unseen');
  });
  if (document.documentElement.scrollWidth > wide + 1) out.push(document.documentElement);
  return out.map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 60)}`);
}"""
"""Elements beyond the right edge of the page that scrolling cannot reach."""

OVERLAP = """() => {
  const state = document.querySelector('.state')?.getBoundingClientRect();
  if (!state) return [];
  const over = (a, b) => a.left < b.right - 1 && a.right > b.left + 1 && a.top < b.bottom - 1 && a.bottom > b.top + 1;
  return [...document.querySelectorAll('.trace *')].filter((node) => node.getBoundingClientRect().width
    && !node.closest('.parameters, pre, .json') && over(node.getBoundingClientRect(), state)).map((node) => node.className);
}"""  # noqa: E501
"""Elements of the story under the state panel."""

BROKEN_BADGES = """() => [...document.querySelectorAll('.pill, .flag, .count, .tier')]
  .filter((node) => node.getClientRects().length > 1 || node.getBoundingClientRect().height > 30)
  .map((node) => node.textContent)"""
"""Badges that take more than one line."""

TABBABLE = """() => [...document.querySelectorAll(
  'a[href], button:not(:disabled), input, select, textarea, summary, [tabindex="0"]')]
  .filter((node) => node.checkVisibility() && node.tabIndex >= 0).length"""


@asynccontextmanager
async def console(folder: Path, *, csp: bool = True, **view: Any) -> AsyncIterator[Seat]:
    """A server with something on every page."""
    home = folder / "home"
    cases = [Case("six times seven", expect="42"), Case("a colour", expect="blue")]
    model = ScriptedModel([finish("42"), finish("red")])
    bench = Bench()
    report = await evaluate(bench.agent(finish("42"), name="helper").replace(model=model), cases)
    store_report(home, "sums", [report])
    long = "word" * 60
    agent = bench.agent(
        batch("I look at both sides", ("look", {"at": "left"}), ("look", {"at": long})),
        lambda request: (
            finish(ANSWER)
            if "explain" in request.conversation[1].content
            else batch("Tell them", ("publish", {"text": long}), ("comment", {"text": "also"}))
        ),
        finish(ANSWER),
    )
    options = {"folder": home, "journal": MemoryJournal()}
    async with seated(agent, folder, csp=csp, server=options, **view) as seat:
        await learnt(seat)
        await seat.client.until(await seat.client.start("explain it", session="checkout"))
        await seat.client.until(await seat.client.start("explain it again", session="checkout"))
        await seat.client.until(await seat.client.start(f"tell them {long}"), "waiting")
        yield seat


async def pages(seat: Seat) -> dict[str, str]:
    """The address of every page, by name."""
    items = (await seat.client.get("/runs")).json()["items"]
    ended = [run["id"] for run in items if run["status"] == "finished"]
    waiting = next(run["id"] for run in items if run["status"] == "waiting")
    eval_ = (await seat.client.get("/console/evals")).json()["items"][0]["id"]
    return {
        **{name: name for name in ("runs", "approvals", "sessions", "evals", "loops", "patterns")},
        "learning": "learning",
        "memory": "memory",
        "budgets": "budgets",
        "policy": "policy",
        "servers": "servers",
        "run-waiting": f"runs/{waiting}",
        "run-finished": f"runs/{ended[0]}",
        "compare": f"compare/{ended[0]}/{ended[1]}",
        "times": f"times/{ended[0]}",
        "times-waiting": f"times/{waiting}",
        "prompt": f"prompts/{ended[0]}",
        "session": "sessions/checkout",
        "eval": f"evals/{eval_}",
        "loop": "loops/loop-1",
        "pattern": "patterns/p1",
    }


async def sign_in_again(page: Page) -> None:
    """Shows the page after the session has ended."""
    await page.evaluate("() => document.dispatchEvent(new Event('signedout'))")
    await expect(page.locator("#token")).to_be_visible()


async def test_no_page_of_the_console_is_left_out(tmp_path: Path) -> None:
    """Whatever the console routes to is among the pages that the tests below go through."""
    source = (STATIC / "js/main.js").read_text()
    tables = re.findall(r"^const (LISTS|ONES) = \{(.*)\};$", source, re.MULTILINE)
    routed = {table: set(re.findall(r"(\w+): \w+View", views)) for table, views in tables}
    async with console(tmp_path) as seat:
        seen = [where.partition("/") for where in (await pages(seat)).values()]
    assert routed["LISTS"] == {section for section, _, one in seen if not one}
    assert routed["ONES"] == {section for section, _, one in seen if one}


async def shown(page: Page) -> None:
    await expect(page.locator("main .loading")).to_have_count(0)
    await expect(page.locator("h1")).to_be_visible()
    await page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_fits_every_width_and_meets_wcag_aa(tmp_path: Path, scheme: str) -> None:
    packages = await asyncio.to_thread(node.needs)
    source = (packages / "node_modules/axe-core/axe.min.js").read_text()
    wrong: dict[str, Any] = {}
    async with console(tmp_path, csp=False, color_scheme=scheme) as seat:
        page = seat.page
        for name, where in (await pages(seat)).items():
            await seat.open(where)
            await shown(page)
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 860})
                await seat.keep(f"{name}-{width}-{scheme}")
                wrong[f"{name} {width} wide"] = await page.evaluate(OVERFLOW)
                wrong[f"{name} {width} under the panel"] = await page.evaluate(OVERLAP)
                wrong[f"{name} {width} badges"] = await page.evaluate(BROKEN_BADGES)
                if width != WIDTHS[1]:
                    wrong[f"{name} {width} axe"] = await faults(seat, source)
        await page.keyboard.press("n")
        await page.click("dialog details summary")
        await page.set_viewport_size({"width": 360, "height": 860})
        wrong["start axe"] = await faults(seat, source)
        wrong["start wide"] = await page.evaluate(OVERFLOW)
        await seat.keep(f"start-360-{scheme}")
        await page.keyboard.press("Escape")
        await page.locator("main").focus()
        await page.keyboard.press("?")
        await expect(page.locator("#shortcuts")).to_be_visible()
        wrong["help axe"] = await faults(seat, source)
        wrong["help wide"] = await page.evaluate(OVERFLOW)
        await page.keyboard.press("Escape")
        await sign_in_again(page)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 860})
            await seat.keep(f"sign-in-{width}-{scheme}")
            wrong[f"sign-in {width} axe"] = await faults(seat, source)
            wrong[f"sign-in {width} wide"] = await page.evaluate(OVERFLOW)
    assert {name: found for name, found in wrong.items() if found} == {}


async def test_every_page_is_walked_through_by_keyboard(tmp_path: Path) -> None:
    """Tab reaches everything once, in order, shows where it is, and comes out again."""
    async with console(tmp_path) as seat:
        page = seat.page
        for name, where in (await pages(seat) | {"sign-in": ""}).items():
            await seat.open(where)
            await shown(page)
            if not where:
                await sign_in_again(page)
            await page.evaluate("() => document.activeElement.blur()")
            wanted = await page.evaluate(TABBABLE)
            seen: set[str] = set()
            for _ in range(wanted + 12):
                await page.keyboard.press("Tab")
                outlined = await page.evaluate(
                    """() => {
                      const node = document.activeElement;
                      if (!node || node === document.body) return '';
                      node.dataset.visit ??= String(window.visits = (window.visits ?? 0) + 1);
                      const style = getComputedStyle(node);
                      const visible = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
                      return `${node.dataset.visit} ${visible}`;
                    }"""  # noqa: E501
                )
                if outlined:
                    seen.add(outlined.split()[0])
                    assert outlined.endswith("true"), f"{name}: the focus is not to be seen"
            assert len(seen) >= wanted - 1, f"{name}: {len(seen)} of {wanted} are reached"


LONG = "averylongwordwithoutanyspaceinit" * 8


def every_event(run: str) -> list[dict[str, Any]]:
    """Returns one event of each stream type, with texts as long as models write them."""
    call = {"callId": f"{run}:1:0", "tool": f"tool_{LONG}"[:64], "args": {"path": LONG, "n": 1}}
    question = {
        "actionId": f"{run}:7", "summary": LONG, "tier": 3, "reason": LONG, "question": "",
        "form": None, "expiresAt": iso(clock() + 90_000), "digest": "d", "requester": "ann",
        "batch": f"{run}#1",
    }  # fmt: skip
    expired = {**call, "actionId": f"{run}:8", "decision": "expired", "by": "clock", "reason": LONG}
    thought = {"type": "exception", "content": LONG, "critical": True, "confidence": 0.5,
               "because": [1]}  # fmt: skip
    result = {"status": "failure", "result": {"error": LONG}, "extraction": LONG, "refused": "",
              "durationMs": 5.0, "cut": True, "media": []}  # fmt: skip
    ended = {"status": "failed", "stopReason": f"error_{LONG}", "steps": 1, "tokens": 12345678,
             "usd": 1.5, "seconds": 3.5}  # fmt: skip
    return [
        {"type": "thinking", "step": 1, "thought": thought, "reasoning": LONG},
        {"type": "tool_start", **call, "tier": 3, "step": 1, "rationale": LONG},
        {"type": "autonomous_action", **call, "tier": 1, "summary": LONG},
        {"type": "progress", "tool": call["tool"], "text": LONG},
        {"type": "tool_result", **call, **result},
        {"type": "confirmation_request", **call, "callId": "x", **question},
        {"type": "confirmation_request", **call, "callId": "y", **question,
         "actionId": f"{run}:8"},
        {"type": "confirmation_resolved", **expired, "callId": "y"},
        {"type": "limit_reached", "limit": "tool_calls", "value": 5, "detail": LONG},
        {"type": "loop_warning", "rule": "repetition", "detail": LONG},
        {"type": "rewound", "to": 900},
        {"type": "answer_chunk", "offset": 0, "text": f"`{LONG}` | {LONG}"},
        {"type": "answer", "text": f"# {LONG}\n\n| {LONG} | b |\n|---|---|\n| 1 | 2 |\n\n- {LONG}"},
        {"type": "error", "code": f"error_{LONG}", "message": LONG},
        {"type": "done", **ended},
    ]  # fmt: skip


@pytest.mark.parametrize("width", [360, 1000, 1280])
async def test_every_type_of_event_fits_the_page(tmp_path: Path, width: int) -> None:
    bench = Bench()
    async with seated(bench.agent(finish()), tmp_path) as seat:
        page, run = seat.page, await seat.client.start(LONG)
        await seat.client.until(run)
        text = ""
        for seq, event in enumerate(every_event(run)):
            sent = {"timestamp": iso(clock()), "sequence": seq, "run": run, "seq": seq, **event}
            name = "run_error" if event["type"] == "error" else event["type"]
            text += f"id: {seq}\nevent: {name}\ndata: {json.dumps(sent)}\n\n"

        async def stream(route: Route) -> None:
            await route.fulfill(content_type="text/event-stream", body=text)

        await page.route("**/runs/*/events*", stream)
        await page.set_viewport_size({"width": width, "height": 800})
        await seat.open(f"runs/{run}")
        await expect(page.locator("p.done")).to_be_attached()
        await expect(page.locator(".note.expired")).to_be_visible()
        for summary in await page.locator(".call summary, .reasoning summary").all():
            await summary.click()
        assert await page.evaluate(OVERFLOW) == []
        assert await page.evaluate(OVERLAP) == []
        assert await page.evaluate(BROKEN_BADGES) == []
        await seat.keep(f"every-event-{width}")
        seat.wrong.clear()  # the stream that was made up ends like one that broke


async def test_a_waiting_run_opens_at_its_card(tmp_path: Path) -> None:
    bench = Bench()
    looks = [act(f"I look {n} " + "and look " * 40, "look", at=str(n)) for n in range(9)]
    agent = bench.agent(*looks, act("I tell", "publish", text="x"), finish())
    async with seated(agent, tmp_path) as seat:
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.open(f"runs/{run}")
        card = seat.page.locator(".card")
        await expect(card).to_be_in_viewport(ratio=0.9)
        # One key would decide a question that the user has not selected.
        await expect(card).not_to_be_focused()
        # An address that names a moment opens there instead.
        await seat.open("runs")
        await seat.open(f"runs/{run}?at=3")
        await expect(seat.page.locator(".where")).to_contain_text("event 3 ")
        await expect(card).not_to_be_focused()


async def test_filters_and_the_slider_stand_in_the_address(tmp_path: Path) -> None:
    async with console(tmp_path) as seat:
        page = seat.page
        await seat.open("runs")
        await page.fill("#filter", "again")
        await page.select_option("#status", "finished")
        await expect(page.locator(".entry")).to_have_count(1)
        await expect(page).to_have_url(f"{seat.url}/#/runs?words=again&status=finished")
        await page.click(".entry")
        await seat.read("run finished")
        await page.locator("main").focus()
        for key in ("[", "[", "c", "["):
            await page.keyboard.press(key)
        await expect(page.locator(".difference, .state p")).to_be_visible()
        # The slider is followed after a moment: the text is that of the last key from then on.
        await expect(page.locator(".where")).to_contain_text("event 1 ·")
        place, told = page.url, await page.locator(".where").text_content()
        assert "at=" in place
        assert "against=" in place
        await page.reload()
        await expect(page.locator(".where")).to_have_text(told or "")
        assert page.url == place
        await page.keyboard.press("Escape")
        await expect(page.locator(".where")).to_contain_text("run finished")
        assert "at=" not in page.url
        await page.go_back()
        await expect(page.locator("#filter")).to_have_value("again")
        await expect(page.locator(".entry")).to_have_count(1)


async def test_all_that_a_step_asks_is_approved_at_once(tmp_path: Path) -> None:
    bench = Bench()
    calls = batch("Tell", ("publish", {"text": "a"}), ("look", {}), ("comment", {"text": "b"}))
    async with seated(bench.agent(calls, finish("told")), tmp_path) as seat:
        page = seat.page
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.open("approvals")
        await expect(page.locator(".card")).to_have_count(2)
        await expect(page.locator(".together")).to_contain_text("2 open questions")
        await seat.open(f"runs/{run}")
        await decide(page.locator(".together [data-do=approve-all]"))
        await expect(page.locator(".answer .text")).to_have_text("told")
        assert sorted(name for name, _ in bench.done) == ["comment", "look", "publish"]
        await expect(page.locator(".together")).to_be_hidden()


async def test_a_run_is_started_within_limits_with_a_state_and_run_again(tmp_path: Path) -> None:
    bench = Bench()
    async with seated(bench.agent(act("look", "look"), finish("seen")), tmp_path) as seat:
        page = seat.page
        await page.keyboard.press("n")
        await page.fill("#goal", "look about")
        await page.click("dialog details summary")
        await page.fill("#limit-steps", "1")
        await page.fill("#state", '{"colour": "blue"}')
        await page.click("dialog button.primary")
        await page.wait_for_url("**/#/runs/*")
        run = page.url.rpartition("/")[2]
        ended = await seat.client.until(run)
        assert ended["steps"] <= 2
        state = (await seat.client.get(f"/runs/{run}/state")).json()
        assert state["data"]["colour"] == "blue"
        started = (await seat.client.get(f"/runs/{run}/records")).json()["items"][0]["event"]
        assert started["settings"]["server"]["limits"] == {"steps": 1}
        await page.click("[data-do=again]")
        await expect(page.locator("#goal")).to_have_value("look about")
        await page.click("dialog button.primary")
        await page.wait_for_url(lambda url: "#/runs/" in url and run not in url)
        await expect(page.locator(".answer .text")).to_have_text("seen")


async def test_a_run_whose_goal_the_page_cannot_show_is_run_again_as_it_began(
    tmp_path: Path,
) -> None:
    goal = "sign in with password=hunter2hunter2 and look about"
    async with seated(Bench().agent(finish("seen")), tmp_path) as seat:
        page, run = seat.page, await seat.client.start(goal)
        await seat.client.until(run)
        await seat.open(f"runs/{run}")
        await expect(page.locator("h1")).to_contain_text("password=[redacted]")
        await page.click("[data-do=again]")
        await page.wait_for_url(lambda url: "#/runs/" in url and run not in url)
        again = page.url.rpartition("/")[2]
        await seat.client.until(again)
        (first, *_) = await seat.client.server.log.read(again)
        assert first.event.goal == goal


async def test_a_session_is_a_conversation(tmp_path: Path) -> None:
    bench = Bench()
    async with seated(bench.agent(finish("**42**")), tmp_path) as seat:
        page = seat.page
        await seat.client.until(await seat.client.start("what is it?", session="sums"))
        await seat.open("sessions")
        await page.click(".entry")
        await expect(page.locator(".mine")).to_have_text(["You: what is it?"])
        await expect(page.locator(".its strong")).to_have_text(["42"])
        await page.fill("#message", "are you sure?")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator(".its strong")).to_have_text(["42", "42"])
        await expect(page.locator(".mine").last).to_contain_text("are you sure?")


ATTACKS = (
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "[click](javascript:alert(1)) [x](JaVaScRiPt:alert(1)) [y](data:text/html,<b>x</b>)",
    "![pixel](https://evil.example/p.png) <https://evil.example/>",
    "[https://bank.example](https://evil.example/login)",
    "[a](//evil.example/x) [b](/runs) [c](#/approvals)",
    "`<b>` **<i>x</i>** _<a href=//evil.example>y</a>_",
    "| <svg onload=alert(1)> | b |\n|---|---|\n| [z](vbscript:x) | 2 |",
    "> " * 500 + "deep\n" + "- " * 500 + "deep",
    "**" * 20_000,
    "`" * 19_999,
    "[" * 20_000,
    "_a " * 20_000,
    "```\n" * 5_001,
)  # fmt: skip


async def test_markdown_of_a_model_can_do_nothing(tmp_path: Path) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        told = await seat.page.evaluate(
            """async (texts) => {
              const { markdown } = await import('/static/js/markdown.js');
              return texts.map((text) => {
                const begun = performance.now();
                const box = document.createElement('div');
                box.append(...markdown(text));
                const links = [...box.querySelectorAll('a')];
                return {
                  elements: [...box.querySelectorAll('script, img, svg, iframe, object, i, b, style, form')].length,
                  attributes: [...box.querySelectorAll('*')].flatMap((n) => n.getAttributeNames()).filter((n) => n.startsWith('on')),
                  links: links.map((a) => a.href), rel: links.every((a) => a.rel.includes('noopener')),
                  text: box.textContent, ms: performance.now() - begun,
                };
              });
            }""",  # noqa: E501
            list(ATTACKS),
        )
    for attack, one in zip(ATTACKS, told, strict=True):
        assert (one["elements"], one["attributes"], one["rel"]) == (0, [], True), attack
        assert all(link.startswith("https://") for link in one["links"]), attack
        assert one["ms"] < 2_000, attack[:40]
    assert told[3]["links"] == ["https://evil.example/login"]
    assert "(evil.example)" in told[3]["text"]  # the target is beside its text


async def test_a_run_is_rated_by_keyboard(tmp_path: Path) -> None:
    async with console(tmp_path) as seat:
        await seat.open((await pages(seat))["run-finished"])
        panel = seat.page.locator(".rating")
        await expect(panel).to_be_visible()
        await panel.locator("input").fill("<b>It is 41</b>")
        await panel.get_by_role("button", name="Bad").press("Enter")
        await expect(panel.locator("li")).to_contain_text("bad by ann")
        await expect(panel.locator("li")).to_contain_text("<b>It is 41</b>")
        await seat.page.reload()
        await panel.get_by_role("button", name="Good").press("Enter")
        await expect(panel.locator("li")).to_have_count(1)
        await expect(panel.locator("li")).to_contain_text("good by ann")
        await seat.open((await pages(seat))["run-waiting"])
        await expect(seat.page.locator(".card").first).to_be_visible()
        await expect(panel).to_be_hidden()


FLOW = f"""\
name: flow
input: text
nodes:
  - name: first
    set: {{size: "{{{{ state.text | length }}}}", wide: "{LONG}"}}
    goto: [{{if: "state.size > 3", to: long}}]
  - {{name: short, set: {{said: short}}, goto: end}}
  - name: long
    uses: tool.list_files
    on_error: {{then: continue}}
    output: said
"""


@pytest.mark.parametrize("width", [360, 1280])
async def test_what_a_flow_did_between_its_actions_stands_in_its_place(
    tmp_path: Path, width: int
) -> None:
    agent = flow(FLOW, tmp_path)
    async with seated(agent, tmp_path) as seat:
        page, run = seat.page, await seat.client.start("a text")
        await seat.client.until(run)
        await page.set_viewport_size({"width": width, "height": 800})
        await seat.open(f"runs/{run}")
        notes = page.locator(".flow.note")
        await expect(notes).to_have_count(3)
        # The notes are from the log and the call is from the stream: neither waits for the other.
        await expect(page.locator(".trace .story > li")).to_have_count(5)
        await expect(page.locator(".call .tool")).to_have_text(["list_files"])
        told = await page.locator(".trace .story > li").all_inner_texts()
        assert told[0].startswith("size: 6, wide: ")
        assert told[1] == "first goes on at long"
        assert "list_files" in told[2]
        assert told[3].startswith("said: ")
        assert await page.evaluate(OVERFLOW) == []
