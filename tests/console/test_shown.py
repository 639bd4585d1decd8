"""The model's prompt and thoughts in a browser: folded, highlighted, without bytes."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits
from taofold.testing.cassette import Cassette
from tests import prerequisites
from tests.console.browser import seated
from tests.models.forms import FORMS, add
from tests.pictures import PDF, PICTURE
from tests.server.test_attachments import encoded

pytestmark = [pytest.mark.anyio, prerequisites.CHROMIUM.mark]

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}


@pytest.mark.parametrize("look", LOOKS)
async def test_thinking_images_and_files_of_a_run(
    look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taofold.testing.cassette._difference", lambda *_: "")
    form = next(form for form in FORMS if form.name == "messages")
    exchanges = form.recorded(streamed=True)
    agent = Agent(form.connect(Cassette(exchanges)), tools=[add], limits=Limits(steps=8))
    files = [
        {"name": "plan.png", "data": encoded(PICTURE)},
        {"name": "norm.pdf", "data": encoded(PDF)},
    ]
    async with seated(agent, tmp_path, **LOOKS[look]) as seat:
        told: list[str] = []

        async def hear(response: Any) -> None:
            if "json" in response.headers.get("content-type", ""):
                told.append(await response.text())

        seat.page.on("response", hear)
        run = await seat.client.start("Add them up.", attachments=files)
        await seat.client.until(run)
        await seat.open(f"runs/{run}")
        await seat.page.get_by_text("It is 10.").first.wait_for()
        thought = seat.page.locator("details.reasoning")
        assert await thought.count() == 3
        assert await thought.first.get_attribute("open") is None
        assert not await seat.page.get_by_text("Two sums at once.").first.is_visible()
        assert await seat.page.locator("img").count() > 0, "the image of the goal is not shown"
        assert await seat.page.get_by_text("norm.pdf").count() > 0
        assert await seat.page.locator("h1.goal").inner_text() == "Add them up."
        await seat.keep(f"shown-{look}")
        await thought.first.locator("summary").click()
        assert await seat.page.get_by_text("Two sums at once.").first.is_visible()
        await seat.keep(f"shown-{look}-open")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await seat.page.evaluate(wide) <= 0, "the page scrolls sideways"
        page = await seat.page.content()
        for signature in signatures(exchanges):
            assert signature not in page
            assert not any(signature in answer for answer in told)


def signatures(exchanges: list[Any]) -> list[str]:
    """Returns Claude's signatures from the recording."""
    bodies = [exchange["request"]["body"] for exchange in exchanges]
    found = {
        block["signature"]
        for body in bodies
        for message in body["messages"]
        for block in message["content"]
        if block.get("type") == "thinking"
    }
    assert found
    return sorted(found)
