"""The console under attack, in Chromium.

The attackers are a listener on another port, another user, a second tab, premature clicks and
misleading calls. Mutants: a session in a cookie; `Liveness.look` always true; `where` checks the
card alone; `rests` always false; `event.repeat` not checked; arguments through `JSON.parse`;
`folds` that finds nothing, or what was open once; the next card gets the focus.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Page, Request, expect

from taofold import Policy, tool
from taofold.server.auth import TokenStore
from taofold.tools.files import file_tools
from tests.console.browser import Seat, decide, press, seated
from tests.server.agents import Bench, act, batch, finish
from tests.server.live import settled

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
FORCE = "button => { button.disabled = false; button.click(); }"
"""Presses a control that the page has disabled."""
ASK = act("I tell", "publish", text="both sides are fine")


class Listener:
    """A program of another user on another port of this machine. It keeps what browsers send."""

    def __init__(self, cookie: str = "") -> None:
        self.heard, self.cookie, self.port = list[str](), cookie, 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        head = f"Set-Cookie: {self.cookie}; Path=/\r\n" if self.cookie else ""
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{head}Content-Length: 2\r\n"
            "Connection: close\r\n\r\nhi".encode()
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(cookie: str = "") -> AsyncIterator[Listener]:
    listener = Listener(cookie)
    server = await asyncio.start_server(listener.answer, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()  # a browser may keep an unused connection open


async def waiting(seat: Seat, count: int = 1) -> str:
    """A run that waits, and the tray in which it is shown."""
    run = await seat.client.start()
    await seat.client.until(run, "waiting")
    await seat.open("approvals")
    await expect(seat.page.locator(".cards .card")).to_have_count(count)
    return run


def approve(page: Page) -> Any:
    return page.locator(".card:not(.settled) [data-do=approve]").first


async def test_a_listener_on_another_port_gets_nothing_that_lets_it_in(tmp_path: Path) -> None:
    bench = Bench()
    async with listening() as other:
        link = f"see [the report](http://127.0.0.1:{other.port}/report)"
        agent = bench.agent(finish(link), ASK, finish())
        async with seated(agent, tmp_path) as seat:
            page = seat.page
            await seat.start("go")
            async with page.context.expect_page() as opened:
                await page.locator(".answer a").click()
            await (await opened.value).wait_for_load_state()
            assert other.heard
            assert await page.context.cookies() == []
            for request in other.heard:
                lowered = request.lower()
                assert not any(name in lowered for name in ("cookie:", "authorization:"))
                # A page's own icon is asked for with that page as referer.
                assert f"referer: {seat.client.url}" not in lowered
            # The listener's data grants no access, also with each header that it received.
            headers = dict(
                line.split(": ", 1) for line in other.heard[0].split("\r\n")[1:] if ": " in line
            )
            headers.pop("Host", None)
            async with httpx2.AsyncClient(base_url=seat.client.url) as program:
                for path in ("/me", "/approvals", "/runs"):
                    assert (await program.get(path, headers=headers)).status_code in (401, 403)


async def test_no_page_at_another_port_reads_the_session_or_uses_it(tmp_path: Path) -> None:
    bench = Bench()
    async with listening() as other, seated(bench.agent(ASK, finish()), tmp_path) as seat:
        run = await waiting(seat)
        evil = await seat.page.context.new_page()
        await evil.goto(f"http://127.0.0.1:{other.port}/")
        assert await evil.evaluate("JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
        asked = """async ([url, path, options]) => {
            try {
                const answer = await fetch(url + path, options);
                return answer.status + await answer.text();
            } catch (error) { return "refused"; }
        }"""
        action = f"/approvals/{run}:1"
        for path, options in (
            ("/me", {"credentials": "include"}),
            (
                action,
                {"method": "POST", "credentials": "include", "body": '{"decision": "approve"}'},
            ),
            ("/me", {"headers": {"Authorization": "Session x"}}),
            (
                f"/runs/{run}/events?on_disconnect=cancel",
                {"mode": "no-cors", "credentials": "include"},
            ),
        ):
            said = await evil.evaluate(asked, [seat.client.url, path, options])
            assert said in ("refused", "0"), said
        await evil.evaluate(
            """url => {
                const image = new Image();
                image.src = url;
                return image.decode().catch(() => 0);
            }""",
            f"{seat.client.url}/runs/{run}/events?on_disconnect=cancel",
        )
        assert (await seat.client.get(f"/runs/{run}")).json()["status"] == "waiting"
        assert ("publish", "both sides are fine") not in bench.done


async def test_a_page_at_another_port_cannot_make_the_console_somebody_elses(
    tmp_path: Path,
) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    bob = tokens.add("bob", ["USER"])
    async with seated(Bench().agent(ASK, finish()), tmp_path) as seat:
        said = (await seat.client.post("/signin", {"token": bob})).json()
        async with listening(f"taofold_session={said['session']}") as other:
            evil = await seat.page.context.new_page()
            await evil.goto(f"http://127.0.0.1:{other.port}/")
            assert await seat.page.context.cookies(f"http://127.0.0.1:{other.port}")
            await seat.page.reload()
            await expect(seat.page.locator("#who")).to_have_text("ann")


async def test_the_printed_link_signs_in_once_and_a_reload_and_a_second_tab_go_on(
    tmp_path: Path,
) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        await seat.page.click("#sign-out")
        await expect(seat.page.locator("#token")).to_be_visible()
        link = f"{seat.url}/signin/{seat.client.server.signin.code()}"
        await seat.page.goto(link)
        await expect(seat.page.locator("#who")).to_have_text("local")
        assert "signin" not in seat.page.url
        await seat.page.reload()
        await expect(seat.page.locator("#who")).to_have_text("local")
        second = await seat.page.context.new_page()
        await second.goto(seat.url)
        await expect(second.locator("#who")).to_have_text("local")
        await seat.keep("signed-in")
        stranger = await seat.page.context.browser.new_context()  # type: ignore[union-attr]
        late = await stranger.new_page()
        await late.goto(link)
        await expect(late.locator(".signin .wrong")).to_contain_text("used or is too old")
        seat.wrong.clear()


async def test_signing_out_ends_every_tab_and_shows_nothing_of_the_run(tmp_path: Path) -> None:
    async with seated(Bench().agent(finish("the secret plan")), tmp_path) as seat:
        await seat.start("plan")
        await expect(seat.page.locator(".answer .text")).to_have_text("the secret plan")
        second = await seat.page.context.new_page()
        await second.goto(seat.page.url)
        await expect(second.locator(".answer .text")).to_have_text("the secret plan")
        secret = await second.evaluate("localStorage.getItem('taofold.session')")
        await seat.page.click("#sign-out")
        for page in (seat.page, second):
            await expect(page.locator("#token")).to_be_visible()
            await expect(page.locator("#who")).to_be_hidden()
            assert "secret plan" not in await page.content()
        headers = {"Authorization": f"Session {secret}"}
        assert (await seat.client.get("/me", headers=headers)).status_code == 401
        seat.wrong.clear()


async def on_a_clock(seat: Seat) -> list[str]:
    """Gives the page a clock that `freeze` stops. Returns the decisions that the page sends.

    The dead second of a card is then a second of this clock, on a busy machine, too.
    """
    sent: list[str] = []

    def hear(request: Request) -> None:
        if request.method == "POST" and "/approvals/" in request.url:
            sent.append(request.url)

    seat.page.on("request", hear)
    await seat.page.clock.install()
    await seat.page.reload()
    return sent


async def freeze(page: Page) -> None:
    """Stops the clock of the page. Only `page.clock.run_for` moves it from now on."""
    # The time to stop at must be in the future, however slow the machine is.
    await page.clock.pause_at(await page.evaluate("Date.now()") + 3_600_000)


@pytest.mark.parametrize("pause", [0, 500, 900])
async def test_a_second_click_does_not_decide_on_the_card_that_slides_under_it(
    pause: int, tmp_path: Path
) -> None:
    bench = Bench()
    agent = bench.agent(ASK, finish())
    async with seated(agent, tmp_path, viewport={"width": 500, "height": 860}) as seat:
        page, cards = seat.page, seat.page.locator(".cards .card")
        sent = await on_a_clock(seat)
        await seat.client.until(await seat.client.start("first"), "waiting")
        await seat.client.until(await seat.client.start("second"), "waiting")
        await seat.open("approvals")
        await expect(cards).to_have_count(2)
        await expect(approve(page)).to_be_enabled()
        await freeze(page)
        box = await approve(page).bounding_box()
        assert box is not None
        place = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        await page.mouse.click(*place)
        await page.mouse.click(*place)  # on the card that is decided
        await expect(page.locator(".card.settled")).to_have_count(1)
        await page.clock.run_for(150)  # the tray looks again, and the second card slides
        await expect(cards).to_have_count(1)
        await page.clock.run_for(pause)
        await page.mouse.click(*place)
        await page.clock.run_for(1_500)
        await expect(approve(page)).to_be_enabled()
        assert len(sent) == 1
        await page.mouse.click(*place)
        await settled(lambda: len(bench.done) == 2)
        # The server, in this process, may act before the browser reports the request.
        await settled(lambda: len(sent) == 2)


async def test_a_card_that_has_just_appeared_is_dead_for_a_second(tmp_path: Path) -> None:
    async with seated(Bench().agent(ASK, finish()), tmp_path) as seat:
        run = await seat.client.start()
        await seat.client.until(run, "waiting")
        await seat.page.evaluate(
            """() => {
                window.lived = [];
                new MutationObserver(() => {
                    const button = document.querySelector(".card [data-do=approve]");
                    if (button) lived.push([performance.now(), button.disabled]);
                    const fresh = button?.disabled === false && !button.dataset.alive;
                    if (fresh) button.dataset.alive = "y";
                }).observe(document.body, { subtree: true, childList: true, attributes: true });
            }"""
        )
        await seat.open("approvals")
        await expect(seat.page.locator("[data-alive]").first).to_be_enabled()
        lived = await seat.page.evaluate("lived")
        born = lived[0][0]
        assert all(disabled for at, disabled in lived if at - born < 900)


async def test_a_key_that_is_held_down_decides_on_nothing(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(
        batch("two", ("publish", {"text": "a"}), ("publish", {"text": "b"})), finish()
    )
    async with seated(agent, tmp_path) as seat:
        await waiting(seat, 2)
        page = seat.page
        await expect(approve(page)).to_be_enabled()
        await page.keyboard.down("a")
        for _ in range(40):
            await page.keyboard.down("a")  # as a keyboard repeats it
            await page.wait_for_timeout(30)
        await page.keyboard.up("a")
        await expect(page.locator(".card").first).to_be_focused()
        assert bench.done == []
        # This holds on a button itself, too.
        await approve(page).focus()
        for key in ("Enter", "Space"):
            await page.evaluate(
                """key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {
                    key, code: key, repeat: true, bubbles: true, cancelable: true }))""",
                key,
            )
        assert bench.done == []
        # A card that is decided on gives the focus to no other one.
        await page.locator(".card").first.focus()
        await expect(approve(page)).to_be_enabled()
        await page.keyboard.press("a")
        await expect(page.locator(".cards .card")).to_have_count(1)
        await expect(page.locator(".cards .card")).not_to_be_focused()


BIG = 9007199254740993


@pytest.mark.parametrize(
    "args", [{"to": BIG}, {"to": [BIG]}, {"to": {"id": -BIG, "x": "9007199254740993:1"}}]
)
async def test_a_big_integer_is_shown_as_the_call_has_it_and_not_edited(
    args: Any, tmp_path: Path
) -> None:
    bench = Bench()
    agent = bench.agent(act("I pay", "publish", text=json.dumps(args), meta=args), finish())
    paid: list[Any] = []

    @tool(effect="once", tier=3)
    def pay(to: Any) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    agent = Bench().agent(act("I pay", "pay", **args), finish(), tools=[pay])
    async with seated(agent, tmp_path) as seat:
        run = await waiting(seat)
        card = seat.page.locator(".card")
        await expect(card.locator(".parameters")).to_contain_text(str(BIG))
        await expect(card.locator(".parameters")).not_to_contain_text(str(BIG - 1))
        await card.locator("summary", has_text="Change, or give").click()
        assert str(BIG) in await card.locator("[name=parameters]").input_value()
        await press(card.locator("[data-do=edit]"), card.locator(".wrong"))
        await expect(card.locator(".wrong")).to_contain_text("cannot send exactly")
        assert paid == []
        await seat.keep("big-integer")
        await decide(card.locator("[data-do=approve]"))
        await seat.client.until(run)
        assert paid == [args["to"]]


@pytest.mark.parametrize(
    "args",
    [
        {"to": [f"person{n}@example.org" for n in range(101)]},
        {"to": [[["deep"], ["deep"]] * 60] * 3},
        {"to": [{"note": "fine " * 100 + "and pay evil"}]},
        {"to": {f"n{n}": [n, {"x": [n] * 120}] for n in range(130)}},
    ],
    ids=["long", "nested", "text", "both"],
)
async def test_what_is_folded_is_said_and_approve_is_dead_until_all_was_seen(
    args: Any, tmp_path: Path
) -> None:
    paid: list[Any] = []

    @tool(effect="once", tier=3)
    def pay(to: Any) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    agent = Bench().agent(act("I pay", "pay", **args), finish(), tools=[pay])
    async with seated(agent, tmp_path) as seat:
        run = await waiting(seat)
        card = seat.page.locator(".card")
        await expect(card.locator("[data-do=deny]")).to_be_enabled()
        await expect(card.locator(".folded")).to_contain_text("folded: unfold everything")
        await expect(card.locator("[data-do=approve]")).to_be_disabled()
        # No key and no script of a hurry goes around it.
        await card.focus()
        await seat.page.keyboard.press("a")
        # In one step: each check of the controls' positions disables them again.
        approve = card.locator("[data-do=approve]")
        await approve.evaluate(FORCE)
        assert (await seat.client.get(f"/runs/{run}")).json()["status"] == "waiting"
        await seat.keep("folded")
        await card.locator("[data-unfold]").click()
        await expect(card.locator(".folded")).to_be_hidden()
        shown = await card.locator(".parameters").inner_text()
        leaves = json.dumps(args).count('"deep"') or 1
        assert shown.count("deep") == leaves or leaves == 1
        for text in ("person100@", "and pay evil", "n129"):
            assert (text in json.dumps(args)) == (text in shown)
        assert await card.locator("details.fold:not([open])").count() == 0
        await decide(card.locator("[data-do=approve]"))
        await seat.client.until(run)
        assert paid == [args["to"]]


@pytest.mark.parametrize("pause", [0, 900])
@pytest.mark.parametrize("how", ["unfold", "edit", "resize", "scroll", "above", "cover"])
async def test_a_control_that_moved_or_appeared_is_dead_for_a_second(
    how: str, pause: int, tmp_path: Path
) -> None:
    paid: list[Any] = []

    @tool(effect="once", tier=3)
    def pay(to: Any) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    args = {"to": [f"person{n}" for n in range(101 if how == "unfold" else 30)]}
    agent = Bench().agent(act("I pay", "pay", **args), finish(), tools=[pay])
    async with seated(agent, tmp_path) as seat:
        page, card = seat.page, seat.page.locator(".card")
        sent = await on_a_clock(seat)
        await waiting(seat)
        await expect(card.locator("[data-do=deny]")).to_be_enabled()
        button = card.locator("[data-do=edit]" if how == "edit" else "[data-do=approve]")
        await button.scroll_into_view_if_needed()
        if how not in ("unfold", "edit"):
            await expect(button).to_be_enabled()
        await freeze(page)
        match how:
            case "unfold":
                await card.locator("[data-unfold]").click()
            case "edit":
                await card.locator("summary", has_text="Change, or give").click()
            case "resize":
                await page.set_viewport_size({"width": 400, "height": 500})
            case "scroll":
                await page.mouse.move(3, 3)
                await page.set_viewport_size({"width": 1280, "height": 400})
                await page.clock.run_for(1_500)
                box = await button.bounding_box()
                assert box is not None
                await page.mouse.move(box["x"] + 20, box["y"] - 60)
                await page.clock.run_for(200)
                await page.evaluate(
                    """() => new Promise((then) => {
                        addEventListener("scroll", then, { once: true });
                        scrollBy(0, -70);
                    })"""
                )
            case "cover":
                await page.keyboard.press("n")
                await page.clock.run_for(1_500)
                await page.keyboard.press("Escape")
            case _:
                await page.evaluate(
                    """() => {
                        const below = document.querySelector(".card .edit");
                        document.querySelector(".card .parameters").before(below);
                    }"""
                )
        # The second click of a gesture, at any position of the control.
        hit = """(one) => {
            const { left, top, width, height } = one.getBoundingClientRect();
            const x = left + width / 2, y = top + height / 2;
            one.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: x, clientY: y }));
        }"""
        await page.clock.run_for(pause)
        await button.evaluate(hit)
        await page.clock.run_for(1_500)
        await expect(button).to_be_enabled()
        assert sent == []
        assert paid == []


async def test_a_part_that_is_folded_again_is_not_shown(tmp_path: Path) -> None:
    """Mutant: what was open once counts. A double click opens and folds."""
    note = "fine " * 100 + "and pay evil"
    args = {"to": [{"note": note}]}
    agent = Bench().agent(act("I pay", "pay", **args), finish(), tools=[payer()])
    async with seated(agent, tmp_path) as seat:
        await waiting(seat)
        card = seat.page.locator(".card")
        await expect(card.locator("[data-do=deny]")).to_be_enabled()
        await card.locator("details.fold:not([open]) > summary").dblclick()
        await expect(card.locator("details.fold:not([open])")).to_have_count(1)
        await expect(card.locator("[data-do=deny]")).to_be_enabled()
        await expect(card.locator("[data-do=approve]")).to_be_disabled()


def payer() -> Any:
    @tool(effect="once", tier=3, preview=lambda parameters: str(parameters.get("text", "pay")))
    def pay(to: Any = None, text: str = "") -> str:
        """Pay."""
        return "paid"

    return pay


@pytest.mark.parametrize("lines", [61, 1500])
async def test_a_difference_is_whole_on_the_card(lines: int, tmp_path: Path) -> None:
    """Mutant: at most 60 lines of a difference."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("old\n" * lines)
    call = act("I edit", "edit_file", path="a.txt", old="old", new="new", all=True)
    agent = Bench().agent(
        call, finish(), tools=[file_tools(root)], policy=Policy(autonomy="conservative")
    )
    async with seated(agent, tmp_path) as seat:
        await waiting(seat)
        card = seat.page.locator(".card")
        shown = await card.locator(".summary").inner_text()
        assert shown.count("+new") == shown.count("-old") == lines
        await expect(card.locator("[data-do=approve]")).to_be_enabled()
        await seat.keep("difference")


async def test_what_the_server_cut_is_not_approved(tmp_path: Path) -> None:
    """Mutant: `short` is false."""
    agent = Bench().agent(act("I pay", "pay", text="x" * 100_001), finish(), tools=[payer()])
    async with seated(agent, tmp_path) as seat:
        run = await waiting(seat)
        card = seat.page.locator(".card")
        await expect(card.locator("[data-do=deny]")).to_be_enabled()
        await expect(card.locator("[data-do=approve]")).to_be_disabled()
        await expect(card.locator(".folded")).to_contain_text(f"taofold approvals approve {run}:")
        # In one step: each check of the controls' positions disables them again.
        await card.locator("[data-do=approve]").evaluate(FORCE)
        assert (await seat.client.get(f"/runs/{run}")).json()["status"] == "waiting"


DIFFERENT = r"""
null ¦ "null" ¦ true ¦ "true" ¦ 0 ¦ -0.0 ¦ 0.0 ¦ -0 ¦ "0" ¦ 1 ¦ 1.0 ¦ "1" ¦ 1e5 ¦ 100000
9007199254740993 ¦ 9007199254740993.0 ¦ 9007199254740992 ¦ 0.1 ¦ 0.10
0.1000000000000000055 ¦ "" ¦ " " ¦ "a" ¦ " a" ¦ "a " ¦ "a\n" ¦ "a\\n" ¦ "\"a\"" ¦ "a\tb"
"a   b" ¦ "a\u00a0b" ¦ "a b" ¦ "a  b" ¦ "a\u3000b" ¦ "a\u200bb" ¦ "a\\u200bb" ¦ "a\r\nb"
"a\nb" ¦ "a\u2028b" ¦ [] ¦ "[]" ¦ {} ¦ "{}" ¦ ["a"] ¦ {"0": "a"} ¦ ["a", "b"] ¦ ["a\n1\nb"]
["a, b"] ¦ {"a": 1} ¦ {"a ": 1} ¦ {"\"a\"": 1} ¦ {"a": null} ¦ {"a": {}} ¦ {"a": []}
{"a": "b\nc 1"} ¦ {"a": "b", "c": 1} ¦ [[]] ¦ [null] ¦ ["null"] ¦ "a\u21e5b" ¦ "a\u21e5\tb"
"⚠" ¦ "⚠\ufe0f" ¦ "é" ¦ "e\u0301" ¦ "\u0e38a" ¦ false ¦ "a\u0000" ¦ "a\\u0000"
"""


@pytest.mark.parametrize("place", ["%s", '[%s, "x"]', '{"n": %s}'])
async def test_no_two_calls_look_alike_on_a_card(place: str, tmp_path: Path) -> None:
    """Mutants: texts without quotes; trailing blanks unchanged; `parse` without `args`."""
    texts = [text for row in DIFFERENT.strip().split("\n") for text in row.split(" ¦ ")]
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        shown = await seat.page.evaluate(
            """async (texts) => {
                const { parameters } = await import("/static/js/card.js");
                const { parse } = await import("/static/js/exact.js");
                const shown = [];
                for (const text of texts) {
                    const card = document.createElement("article");
                    card.className = "card";
                    card.append(parameters(parse(`{"args": {"to": ${text}}}`).args, true));
                    document.querySelector("main").append(card);
                    shown.push(card.innerText);
                    card.remove();
                }
                return shown;
            }""",
            [place % text for text in texts],
        )
        alike: dict[str, list[str]] = {}
        for text, seen in zip(texts, shown, strict=True):
            drawn = "\n".join([row.rstrip() for row in seen.expandtabs(4).split("\n")])
            alike.setdefault(drawn, []).append(text)
        assert [texts for texts in alike.values() if len(texts) > 1] == []


async def test_a_call_that_is_deeply_nested_stays_on_its_card(tmp_path: Path) -> None:
    """Mutant: each level is indented, until nothing of it is left on the page."""
    deep: Any = "the very end of it"
    for level in range(60):
        deep = {"in": deep} if level % 2 else [deep, {}]
    agent = Bench().agent(act("I pay", "pay", to=deep), finish(), tools=[payer()])
    async with seated(agent, tmp_path, viewport={"width": 360, "height": 740}) as seat:
        await waiting(seat)
        card = seat.page.locator(".card")
        await expect(card.locator("[data-do=deny]")).to_be_enabled()
        assert "the very end of it" in await card.inner_text()
        assert await card.evaluate("(one) => one.scrollWidth <= one.clientWidth")
        await expect(card.locator("[data-do=approve]")).to_be_enabled()
        await seat.keep("deeply-nested")


async def test_a_number_is_sent_as_it_was_written(tmp_path: Path) -> None:
    """Mutant: `JSON.stringify` of what was edited."""
    paid: list[str] = []

    @tool(effect="once", tier=3)
    def pay(to: Any) -> str:
        """Pay."""
        paid.append(json.dumps(to))
        return "paid"

    agent = Bench().agent(act("I pay", "pay", to=[1.0, -0.0, 1]), finish(), tools=[pay])
    async with seated(agent, tmp_path) as seat:
        run = await waiting(seat)
        card = seat.page.locator(".card")
        await card.locator("summary", has_text="Change, or give").click()
        text = await card.locator("[name=parameters]").input_value()
        assert json.dumps(json.loads(text)) == '{"to": [1.0, -0.0, 1]}'
        await card.locator("[name=parameters]").fill(text.replace("-0.0", "2.0"))
        await decide(card.locator("[data-do=edit]"))
        await seat.client.until(run)
        assert paid == ["[1.0, 2.0, 1]"]


async def test_a_row_of_a_long_line_does_not_look_like_a_line_of_its_own(tmp_path: Path) -> None:
    """Mutant: further rows begin where lines begin."""
    text = "+x = 1;" + " " * 150 + "-evil()\n-gone"
    for name in ("preview", "parameter"):
        agent = Bench().agent(act("I pay", "pay", text=text), finish(), tools=[payer()])
        folder = tmp_path / name
        folder.mkdir()
        async with seated(agent, folder) as seat:
            await waiting(seat)
            place = ".summary" if name == "preview" else ".parameters dd"
            lefts = await seat.page.evaluate(
                """(place) => {
                    const lefts = [];
                    for (const line of document.querySelectorAll(`.card ${place} .lines > span`)) {
                        const range = document.createRange();
                        range.selectNodeContents(line);
                        const rows = [...range.getClientRects()].map((one) => one.left);
                        lefts.push([rows[0], ...rows.slice(1)]);
                    }
                    return lefts;
                }""",
                place,
            )
            first, second = lefts
            assert first[0] == second[0]
            assert len(first) > 1
            assert all(left > first[0] + 3 for left in first[1:])
            await seat.keep(f"long-line-{name}")


async def test_no_part_of_a_call_lies_behind_a_scroll_bar(tmp_path: Path) -> None:
    text = "\n".join(f"line {n} " + "x" * 300 for n in range(80))
    async with seated(
        Bench().agent(act("I tell", "publish", text=text), finish()), tmp_path
    ) as seat:
        await waiting(seat)
        hidden = await seat.page.evaluate(
            """() => {
                const hides = (one) => one.scrollHeight > one.clientHeight + 2
                    || one.scrollWidth > one.clientWidth + 2;
                const styled = (one) => getComputedStyle(one);
                return [...document.querySelectorAll(".card, .card *")]
                    .filter((one) => styled(one).display !== "inline")
                    .filter((one) => styled(one).overflow !== "visible")
                    .filter((one) => !one.closest("details.edit") && hides(one))
                    .map((one) => one.className);
            }"""
        )
        assert [one for one in hidden if one != "unseen"] == []


UNSEEN = "\u3164\u2800\ufe0f\u034f\u00ad\u200d\u202e\u115f\U000e0101\u180e"


async def test_nothing_is_unseen_on_a_card(tmp_path: Path) -> None:
    agent = Bench().agent(
        act("I ask", "ask_user", question=f"Pay bob{UNSEEN}?\n⚠\ufe0f now"),
        act("I tell", "publish", text=f"a{UNSEEN}b"),
        finish(),
        ask_user=True,
    )
    async with seated(agent, tmp_path) as seat:
        await waiting(seat)
        card = seat.page.locator(".card")
        for _ in range(2):
            shown = await card.inner_text()
            assert not set(UNSEEN) & set(shown)
            assert "\\u3164\\u2800\\ufe0f" in shown
            if await card.locator("[name=answer]").count():
                await card.locator("[name=answer]").fill("yes")
                await decide(card.locator("[data-do=answer]"))
                # Both cards may be there for a moment, so this names the whole list.
                await expect(seat.page.locator(".card h3")).to_have_text(["publish"])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("https://bаnk.example/login", "xn--bnk-6cd.example"),
        ("[https://bаnk.example](https://bаnk.example)", "xn--bnk-6cd.example"),
        ("https://bank.example@evil.example/", "evil.example"),
        ("[bank.example](https://evil.example)", "evil.example"),
        ("https://bank.example/login", ""),
    ],
)
async def test_a_link_shows_where_it_leads(text: str, where: str, tmp_path: Path) -> None:
    async with seated(Bench().agent(finish(f"See {text} now")), tmp_path) as seat:
        await seat.start("go")
        await expect(seat.page.locator(".answer a")).to_be_visible()
        leads = seat.page.locator(".answer .leads")
        assert await leads.count() == bool(where)
        if where:
            await expect(leads).to_have_text(f" ({where})", use_inner_text=False)
