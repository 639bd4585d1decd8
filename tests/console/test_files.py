"""The console's files: obedient to the policy of the page, small, and never found by a path."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from taofold.core.text import unambiguous, visible
from taofold.server.console import FILES
from tests.prerequisites import NODE
from tests.server.agents import Bench, finish
from tests.server.live import serving

STATIC = Path(__file__).parents[2] / "src/taofold/server/static"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))
INSERTS_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment"
    r"|DOMParser|srcdoc|\beval\(|new Function|setHTML|javascript:"
)
SOMEWHERE_ELSE = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]{2,}", re.IGNORECASE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_can_insert_markup_or_run_text(path: Path) -> None:
    text = path.read_text()
    assert INSERTS_HTML.search(text) is None
    assert not re.search(r"setTimeout\(\s*[\"'`]", text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_import_is_a_file_of_the_console(path: Path) -> None:
    for name in re.findall(r'from "(.*?)"', path.read_text()):
        assert (path.parent / name).is_file(), name


def test_nothing_comes_from_somewhere_else_and_nothing_stands_inline() -> None:
    for name, file in FILES.items():
        text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
        assert SOMEWHERE_ELSE.search(text) is None, name
        assert "@import" not in text
        assert "url(" not in text
    page = FILES["index.html"].content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


def test_the_page_stays_light() -> None:
    assert sum(len(file.content) for file in FILES.values()) < 200_000


def test_every_file_is_packaged() -> None:
    on_disk = {str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file()}
    assert on_disk == set(FILES)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def themes() -> tuple[dict[str, str], dict[str, str]]:
    """The colours in light and in dark."""
    css = FILES["app.css"].content.decode()
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", css)
    return {name: light for name, light, _ in pairs}, {name: dark for name, _, dark in pairs}


def test_every_colour_of_text_has_the_contrast_of_wcag_aa_on_every_ground() -> None:
    light, dark = themes()
    inks = ("ink", "soft", "accent", "good", "bad", "wait", "goal", "progress", "extraction",
            "reasoning", "exception", "synthesis", "research")  # fmt: skip
    for theme in (light, dark):
        for ink in inks:
            for ground in ("paper", "sheet", "sunk"):
                ratio = contrast(theme[ink], theme[ground])
                assert ratio >= 4.5, f"{ink} on {ground}: {ratio:.2f}"
        assert contrast(theme["accent-ink"], theme["accent"]) >= 4.5
        assert contrast(theme["edge"], theme["sheet"]) >= 3


@pytest.mark.anyio
async def test_files_are_served_with_their_type_and_not_sent_again(tmp_path: Path) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "runs.db") as client:
        page = await client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in page.headers["content-security-policy"]
        for name in FILES:
            answer = await client.get(f"/static/{name}")
            assert answer.status_code == 200, name
            assert answer.content == FILES[name].content
            again = {"If-None-Match": answer.headers["etag"]}
            assert (await client.get(f"/static/{name}", headers=again)).status_code == 304


@pytest.mark.anyio
@pytest.mark.parametrize(
    "path",
    [
        "../app.py", "..%2fapp.py", "%2e%2e/app.py", "js/../../console.py", "/etc/passwd",
        "js", "js/", "", "app.css%00", "APP.CSS", "js\\dom.js",
    ],
)  # fmt: skip
async def test_what_a_request_names_is_never_a_path(tmp_path: Path, path: str) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "runs.db") as client:
        answer = await client.get(f"/static/{path}")
        assert answer.status_code in (400, 404)
        assert b"import" not in answer.content


def test_the_console_sees_the_characters_that_the_terminal_sees() -> None:
    NODE.need()
    script = """
        import { prose, unambiguous, visible } from %s;
        const out = [[], []];
        for (let n = 0; n < 0x110000; n += 1) {
            const one = String.fromCodePoint(n);
            if (visible(one) !== one) out[0].push(n);
            if (unambiguous(`a${one}b`) !== `a${one}b`) out[1].push(n);
        }
        const texts = JSON.parse(process.argv[1]);
        const blanks = unambiguous(" a \\n\\tb \\t\\n\\r\\n\\\\u0020 ");
        console.log(JSON.stringify([...out, texts.map((one) => prose(one) === one), blanks]));
    """
    at = json.dumps((STATIC / "js/format.js").as_uri())
    texts = [
        "⚠\ufe0f",
        "❤\ufe0f\u200d🔥",
        "1\ufe0f\u20e3",
        "می\u200cخ",
        "a\ufe0f",
        "⚠\ufe0f\ufe0f",
        "x\u200dy",
    ]
    command = ["node", "--input-type=module", "-e", script % at, json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    unseen, spelled, kept, blanks = json.loads(done.stdout)
    middle = [n for n in range(0x110000) if unambiguous(f"a{chr(n)}b") != f"a{chr(n)}b"]
    assert spelled == middle
    assert blanks == " a\\u0020\n⇥\tb\\u0020\\u0009\n\\u000d\n\\u005cu0020\\u0020"
    assert unseen == [n for n in range(0x110000) if visible(chr(n)) != chr(n)]
    assert kept == [visible(one, prose=True) == one for one in texts]
