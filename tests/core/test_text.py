"""Text for users: shortening, visible control characters, suggestions for misspelt names."""

from datetime import UTC, datetime, timedelta
from unicodedata import category, east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from taofold.core.text import (
    CONTINUED,
    clip,
    excerpt,
    framed,
    iso,
    key_line,
    milliseconds,
    near,
    quoted,
    unambiguous,
    visible,
    visible_line,
)


@pytest.mark.parametrize(
    ("text", "width", "clipped"),
    [("abcde", 5, "abcde"), ("abcdef", 5, "abcd…"), ("abc def", 5, "abc…"), ("", 1, "")],
)
def test_a_text_is_clipped_to_a_width(text: str, width: int, clipped: str) -> None:
    assert clip(text, width) == clipped


def test_an_excerpt_is_head_and_tail_of_three_tenths_each_and_says_what_is_missing() -> None:
    text = "".join([chr(97 + n % 26) for n in range(200)])
    assert excerpt(text, 200) == text
    assert excerpt(text, 100) == f"{text[:30]}\n[… 140 characters left out …]\n{text[-30:]}"
    assert excerpt(text, 1) == f"{text[:1]}\n[… 198 characters left out …]\n{text[-1:]}"


def test_an_excerpt_keeps_the_first_error_lines_that_fit_between_head_and_tail() -> None:
    head, tail = "h" * 299 + "\n", "\n" + "t" * 299
    lines = [f"line {n}" for n in range(100)]
    lines[10] = "error: first " + "x" * 300
    lines[20] = "E   second"
    lines[30] = "all failed"
    middle = "\n".join(lines)
    shown = excerpt(head + middle + tail, 1000)
    kept = "\n".join([lines[10][:200], lines[20], lines[30]])
    left = len(middle) - len(kept)
    assert shown == f"{head}\n[… {left} characters left out …]\n{kept}\n[…]\n{tail}"
    # 400 characters are left for errors: each counts with the end of its line.
    full = "\n".join(["error " + "y" * 193] * 3 + ["noise"] * 100)
    shown = excerpt(head + full + tail, 1000)
    assert shown.count("error y") == 2
    assert excerpt(head + full + tail, 990).count("error y") == 1


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("AssertionError: no", True),
        ("ValueError: no", True),
        ("httpx.ReadTimeoutError: no", True),
        ("my.OwnException", True),
        ("myError: no", False),
        ("Traceback (most recent call last):", True),
        ("assert x == 1", True),
        ("kernel panic", True),
        ("E", False),
        ("E x", True),
        ("terror", False),
        ("x" * 1994 + " error", True),
        ("x" * 2000 + " error", False),
    ],
)
def test_which_line_of_a_failure_is_its_key(line: str, is_error: bool) -> None:
    text = f"\n  first  \n{line}\nlast"
    assert key_line(text) == "first"
    assert key_line(text, failed=True) == (line.strip()[:200] if is_error else "first")


def test_a_key_line_is_short_and_of_nothing_there_is_none() -> None:
    assert key_line("x" * 300) == "x" * 200
    assert key_line(" \n \n") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a␍b"),
        ("\x1b[2J", "␛[2J"),
        ("\x00\x08\x0b\x1f", "␀␈␋␟"),
        ("\x7f\x80\x9f\xa0", "\\u{7f}\\u{80}\\u{9f}\xa0"),
        ("\u061b\u061c\u061d", "\u061b\\u{61c}\u061d"),
        ("\u200a\u200b\u200f\u2010", "\u200a\\u{200b}\\u{200f}\u2010"),
        ("\u2027\u2028\u202e\u202f", "\u2027\\u{2028}\\u{202e}\u202f"),
        ("\u205f\u2060\u206f\u2070", "\u205f\\u{2060}\\u{206f}\u2070"),
        ("\ufefe\ufeff", "\ufefe\\u{feff}"),
        ("\U000dffff\U000e0000\U000e0fff\U000e1000", "\U000dffff\\u{e0000}\\u{e0fff}\U000e1000"),
        ("\ud7ff\ud800\udfff\ue000", "\ud7ff\\u{d800}\\u{dfff}\ue000"),
    ],
)
def test_what_acts_on_a_screen_is_made_visible_and_nothing_else(text: str, shown: str) -> None:
    assert visible(text) == shown


UNSEEN = [
    "\xad",
    "͏",
    "\u061c",
    "ᅟ",
    "ᅠ",
    "឴",
    "឵",
    "᠋",
    "\u180e",
    "᠏",
    "\u200b",
    "\u200c",
    "\u200d",
    "⠀",
    "ㅤ",
    "︀",
    "️",
    "\ufeff",
    "ﾠ",
    "\ufff0",
    "\ufff9",
    "\ufffb",
    "\U0001bca0",
    "𝅙",
    "\U0001d173",
    "\U000e0001",
    "\U000e0041",
    "󠄀",
    "󠇯",
]


@pytest.mark.parametrize("character", UNSEEN, ids=[f"U+{ord(one):04X}" for one in UNSEEN])
def test_no_invisible_character_stays_in_a_name(character: str) -> None:
    assert visible(f"a{character}b") == f"a\\u{{{ord(character):x}}}b"
    assert visible(f"é{character}é") == f"é\\u{{{ord(character):x}}}é"


def test_whatever_unicode_calls_format_is_seen_but_for_marks_that_are_drawn() -> None:
    drawn = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    formats = [n for n in range(0x110000) if category(chr(n)) in ("Cc", "Cf", "Cs")]
    kept = {n for n in formats if visible(chr(n)) == chr(n)}
    assert kept - drawn == {9, 10}


@pytest.mark.parametrize(
    "text", ["⚠\ufe0f done", "❤\ufe0f\u200d🔥", "👩\u200d💻", "1\ufe0f\u20e3", "می\u200cخواهم"]
)
def test_prose_keeps_what_emoji_and_scripts_need_and_a_name_does_not(text: str) -> None:
    assert visible(text, prose=True) == text
    assert visible(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "a\ufe0f",
        "⚠\ufe0f\ufe0f",
        "é\u200d\u200dé",
        "x\u200dy",
        "⚠\ufe01",
        "é\U000e0100",
        "👩\u200d",
    ],
)
def test_nothing_can_be_hidden_in_prose(text: str) -> None:
    shown = visible(text, prose=True)
    assert "\\u{" in shown
    assert visible(shown, prose=True) == shown


def test_a_text_of_one_line_stays_on_it() -> None:
    assert visible_line("a\nb\r\nc\td\x1b") == "a␊b␊c␉d␛"


@pytest.mark.parametrize("width", [14, 40, 80])
def test_no_row_of_a_framed_text_begins_with_what_the_text_says(width: int) -> None:
    evil = "tier: 1\n" + " " * width + "[a]pprove\r\u2028tier: 1\n\ty\n" + "界" * 60
    rows = framed(evil, width)
    assert all(row.startswith(("│", CONTINUED)) for row in rows)
    assert all(sum(1 + (east_asian_width(c) in "WF") for c in row) <= width for row in rows)


def test_a_row_of_a_long_line_never_looks_like_a_line_of_its_own() -> None:
    """Mutants: `further` is `first`; the text decides the first columns of a row."""
    rows = framed("+x = 1;" + " " * 60 + "-evil()\n-gone\n│↳  -no", 40)
    assert [row.startswith(CONTINUED) for row in rows] == [False, True, True, False, False]
    assert rows[3:] == ["│ -gone", "│ │↳  -no"]
    # A quotation in our text stays marked: its further rows have the mark too.
    inner = framed(f"it asks:\n{quoted('x' * 100)}", 40)
    assert inner[1].startswith("│ │ ")
    assert all(row.startswith(CONTINUED) for row in inner[2:])


def test_no_table_of_widths_counts_more_columns_than_a_row_has_room_for() -> None:
    """Mutant: symbols that `unicodedata` calls narrow (U+2630, U+4DC0, U+1D360) take one column."""
    many = [chr(n) for n in range(0x110000)]
    disputed = [one for one in many if cell_len(one) > 1 and east_asian_width(one) not in "WF"]
    assert {"☰", "⚊", "䷀", "\U0001d360"} <= {*disputed}
    for character in disputed:
        rows = framed(character * 30, 30)
        assert max(map(cell_len, rows)) <= 30, f"U+{ord(character):04X}"


ALIKE = [
    "a", "a ", "a\t", "a\n", "a\r\n", "a\r", "a\xa0", "a\u3000", "a\u2003", "a\u200b", "a\\u{20}",
    "a\\u{200b}", "a\\u{5c}u{20}", "a b", "a\tb", "a⇥\tb", "a⇥   b", "a⇥  b", "a   b", "a\u2028b",
    "a\ufe0f", "é", "e\u0301", "e\\u{301}", "\u0e38a", "a\u0e38", "\u05bda",
    "a\x1b", "a␛", "a\\", "a\\u", "a\ud800", "a  ", "a \n", "a\udcff", " a", "\ufeffa", "a\u2800",
]  # fmt: skip


def drawn(text: str) -> str:
    """Returns the visible form of a text: no line ends, one kind of blank."""
    rows = unambiguous(text).expandtabs(4).split("\n")
    return "\n".join([row.rstrip().replace("\xa0", " ").replace("\u3000", " ") for row in rows])


def test_no_two_texts_are_spelled_alike() -> None:
    """Mutants: `unambiguous` keeps trailing blanks; keeps U+A0; keeps spelled escapes unchanged."""
    assert len({drawn(text) for text in ALIKE}) == len(ALIKE)
    assert all(visible(unambiguous(text)) == unambiguous(text) for text in ALIKE)
    assert unambiguous("a\tb \\ é\n\nx") == "a⇥\tb \\ é\n\nx"


@given(st.text(" \t\n\r\\u{20}⇥\xa0\u200ba"), st.text(" \t\n\r\\u{20}⇥\xa0\u200ba"))
def test_a_spelling_stands_for_one_text(one: str, other: str) -> None:
    """Mutant: the mark of a tab may stand in the text itself."""
    assert (drawn(one) == drawn(other)) == (one == other)


@pytest.mark.parametrize("mark", ["\u0301", "\u20d2", "\u0e38", "\u05bd", "\u093f", "\ufe20"])
def test_no_mark_is_drawn_over_the_sign_of_a_line(mark: str) -> None:
    """Mutant: marks stay. U+20D2 behind `-` looks like `+`."""
    assert unambiguous(f"{mark}a\n{mark}b") == f"\\u{{{ord(mark):x}}}a\n\\u{{{ord(mark):x}}}b"


def test_spelling_takes_time_in_proportion_to_the_text() -> None:
    """Mutant: the look-behind is omitted; this would take hours."""
    assert len(unambiguous(" " * 1_000_000 + "x")) == 1_000_001


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("reakt", ["react", "plan"], "did you mean 'react'?"),
        ("REACT", ["react", "plan"], "did you mean 'react'?"),
        ("plam", ["plan", "plum", "pla"], "did you mean 'pla' or 'plum'?"),
        ("zzz", ["react", "plan"], "known are plan, react"),
        ("zzz", [], ""),
        ("zzz", list("abcdefghijkl"), "known are a, b, c, d, e, f, g, h, i, j, k, l"),
        ("zzz", list("abcdefghijklm"), ""),
        ("needle", [*[f"{n:04}" for n in range(499)], "needle"], "did you mean 'needle'?"),
        ("needle", [*[f"{n:04}" for n in range(500)], "needle"], ""),
        ("abcde", ["abcxx"], "did you mean 'abcxx'?"),
        ("abcde", ["abxxx"], "known are abxxx"),
    ],
)  # fmt: skip
def test_what_a_word_was_meant_to_be(word: str, known: list[str], hint: str) -> None:
    assert near(word, known) == hint


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_an_instant_comes_back_to_the_millisecond(ms: int) -> None:
    assert milliseconds(iso(ms)) == ms
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert iso(ms) == f"{instant:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{ms % 1000:03}Z"


def test_a_time_without_an_offset_is_utc_and_one_with_is_taken_with_it() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert milliseconds("1970-01-01T00:00:01.5") == 1500
    assert milliseconds("1970-01-01T01:00:01.500+01:00") == 1500
    assert milliseconds("1969-12-31T23:59:59.999Z") == -1
    with pytest.raises(ValueError, match="soon"):
        milliseconds("soon")
