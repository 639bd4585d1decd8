"""Every slip in every envelope is parsed, and every cut of it is refused."""

import pytest

from taofold.parsing import Parsed, parse
from tests.parsing.corruptions import ENVELOPES, SLIPS, VALUES, WHOLE_TEXT

GRID = [(s, e) for s in SLIPS for e in ENVELOPES if e == "bare" or s not in WHOLE_TEXT]


def read(text, type_):
    result = parse(text, type_)
    return result.value.model_dump(mode="json") if isinstance(result, Parsed) else None


@pytest.mark.scenario("TAG-11", "TEA-03", "PEER-09")
@pytest.mark.parametrize(("slip", "envelope"), GRID)
def test_a_malformed_value_is_read_as_it_was_meant(slip, envelope):
    for type_, value in VALUES:
        text = ENVELOPES[envelope](SLIPS[slip](value))
        assert read(text, type_) == type_.model_validate(value).model_dump(mode="json"), text


@pytest.mark.parametrize("slip", SLIPS)
def test_every_prefix_is_refused_or_gives_the_whole_value(slip):
    for envelope in ("bare", "fence", "prose", "tool tag", "response"):
        for type_, value in VALUES:
            if slip in WHOLE_TEXT and envelope != "bare":
                continue
            text = ENVELOPES[envelope](SLIPS[slip](value))
            whole = type_.model_validate(value).model_dump(mode="json")
            for end in range(1, len(text), 3):
                assert read(text[:end], type_) in (None, whole), text[:end]


def test_the_prefix_check_would_catch_a_parser_that_closes_what_is_open(monkeypatch):
    """A mutant: pretend that nothing was closed by the end of the text."""
    from taofold.parsing.jsonlike import reader as reader

    plain = reader.JsonReader.read

    def careless(self, start, headless=False):
        out = plain(self, start, headless)
        out.open, out.cut = [], False
        return out

    monkeypatch.setattr(reader.JsonReader, "read", careless)
    with pytest.raises(AssertionError):
        test_every_prefix_is_refused_or_gives_the_whole_value("plain")
