"""Media for a model: detected by their bytes, checked before a request is sent."""

import struct
from pathlib import Path
from typing import Any

import pytest

from taofold import Audio, ConfigError, Document, Image, tool
from taofold.core.content import MediaPart, TextPart
from taofold.tools.attachments import Loaded, media_type_of, prompted, showing
from taofold.tools.context import Outcome, RunContext
from taofold.tools.files import file_tools
from taofold.tools.result import outcome_of
from tests.pictures import PDF, PICTURE


def test_a_file_is_what_its_bytes_say(tmp_path: Path) -> None:
    (tmp_path / "photo.txt").write_bytes(PICTURE)
    loaded = Image(tmp_path / "photo.txt").load()
    assert isinstance(loaded, Loaded)
    assert loaded.part == MediaPart(
        "image", "image/png", loaded.part.digest, len(PICTURE), "photo.txt"
    )
    with pytest.raises(ConfigError, match="is image/png, no document"):
        Document(tmp_path / "photo.txt").load()
    with pytest.raises(ConfigError, match="is application/pdf, no audio"):
        Audio(data=PDF).load()


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        (PICTURE[:-6], "cut off"),
        (PICTURE[:40] + b"\0" + PICTURE[41:], "checksum"),
        (PDF[:20], "cut off"),
        (b"\xff\xd8\xff\xe0" + bytes(100), "cut off"),
        (b"", "empty"),
        (b"\0\1\2\3", "no kind"),
    ],
    ids=["cut png", "changed png", "cut pdf", "cut jpeg", "nothing", "noise"],
)
def test_what_is_damaged_is_told_before_it_is_sent(data: bytes, flaw: str) -> None:
    with pytest.raises(ConfigError, match=flaw):
        showing([Image(data=data) if b"%PDF" not in data else Document(data=data)])


def test_a_wrong_checksum_of_a_part_that_decoders_skip_damages_no_picture() -> None:
    end = 8 + 25  # the signature and IHDR
    profile = struct.pack(">I4s4sI", 4, b"iCCP", b"none", 0)
    loaded = Image(data=PICTURE[:end] + profile + PICTURE[end:]).load()
    assert isinstance(loaded, Loaded)
    critical = struct.pack(">I4s4sI", 4, b"ICCP", b"none", 0)
    with pytest.raises(ConfigError, match="checksum"):
        Image(data=PICTURE[:end] + critical + PICTURE[end:]).load()


def test_what_is_too_large_or_gone_is_told_without_being_read(tmp_path: Path) -> None:
    large = tmp_path / "large.pdf"
    with large.open("wb") as file:
        file.write(PDF)
        file.truncate(40_000_000)
    with pytest.raises(ConfigError, match=r"40\.0 MB: no provider takes more"):
        Document(large).load()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Image(tmp_path / "gone.png").load()
    with pytest.raises(ConfigError, match="one of them"):
        Image(tmp_path / "a.png", data=PICTURE).load()


def test_a_text_file_goes_as_text(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Grüße")
    assert Document(tmp_path / "notes.md").load() == TextPart("[file notes.md]\nGrüße")


@pytest.mark.parametrize(
    "returned",
    [Image(data=PICTURE), PICTURE, bytearray(PICTURE), Outcome(Image(data=PICTURE))],
    ids=["image", "bytes", "bytearray", "outcome"],
)
def test_a_tool_may_return_a_picture(returned: object) -> None:
    outcome = outcome_of(returned)
    (part,) = outcome.parts
    assert isinstance(part, MediaPart)
    assert (part.media_type, outcome.status) == ("image/png", "success")
    assert outcome.blobs == {part.digest: PICTURE}
    assert outcome.value == part.line


@pytest.mark.anyio
async def test_a_key_line_of_its_own_leaves_the_picture() -> None:
    @tool(effect="read", extract=lambda value: "a picture")
    def draw() -> Image:
        """Draw."""
        return Image(data=PICTURE)

    outcome = await draw.bind({}).run(RunContext(None))
    (part,) = outcome.parts
    assert isinstance(part, MediaPart)
    assert (outcome.extraction, outcome.blobs) == ("a picture", {part.digest: PICTURE})


def test_a_tool_may_return_text_data_and_pictures_in_order() -> None:
    outcome = outcome_of(["before", Image(data=PICTURE), {"a": 1}])
    assert [type(part) for part in outcome.parts] == [TextPart, MediaPart, TextPart]
    assert outcome.parts[2] == TextPart('{"a":1}')


def test_bytes_that_only_begin_like_a_picture_stay_what_they_were() -> None:
    outcome = outcome_of(PICTURE[:30])
    assert not outcome.parts
    assert str(outcome.value).startswith("<30 bytes, not text")


def test_a_picture_that_cannot_be_shown_leaves_the_call_done() -> None:
    outcome = outcome_of(Image("/nowhere/a.png"))
    assert (outcome.status, outcome.parts) == ("partial", ())
    assert "cannot be read" in str(outcome.value)


@pytest.mark.anyio
async def test_the_file_tool_reads_pictures_and_documents(tmp_path: Path) -> None:
    (tmp_path / "plan.png").write_bytes(PICTURE)
    (tmp_path / "bad.png").write_bytes(PICTURE[:-4])
    (tmp_path / "report.pdf").write_bytes(PDF)
    tools = file_tools(tmp_path)

    async def read(path: str) -> Outcome:
        return await tools["read_file"].bind({"path": path}).run(RunContext(None))

    (plan,) = (await read("plan.png")).parts
    (report,) = (await read("report.pdf")).parts
    assert isinstance(plan, MediaPart)
    assert isinstance(report, MediaPart)
    assert (plan.name, report.media_type) == ("plan.png", "application/pdf")
    failed = await read("bad.png")
    assert failed.status == "failure"
    assert "damaged" in str(failed.value)


def test_kinds_are_told_apart() -> None:
    assert media_type_of(b"RIFF\x24\0\0\0WAVEfmt ") == "audio/wav"
    assert media_type_of(b"RIFF\x24\0\0\0WEBPVP8 ") == "image/webp"
    assert media_type_of(b"\0\0\0\x18ftypheic") == "image/heic"
    assert media_type_of(b"plain text") == ""


@pytest.mark.parametrize("goal", [3, None, [3], ["read", {"a": 1}]])
def test_a_goal_of_another_kind_is_refused_with_what_is_wanted(goal: Any) -> None:
    with pytest.raises(TypeError, match=r"a goal (is text|holds texts)"):
        prompted(goal)


def test_a_mapping_is_no_goal_and_the_error_names_data() -> None:
    wrong: Any = {"query": "tea"}
    with pytest.raises(ConfigError, match="pass the state at the start as data="):
        prompted(wrong)
