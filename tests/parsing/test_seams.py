"""Arguments whose notation was guessed: what is believed, and what is asked again."""

import pytest

from taofold.parsing import Repair, Turn, Unparsed, read_reply
from taofold.parsing.jsonlike.seams import doubt_of

TOOLS = {
    "send": {
        "properties": {"to": {"type": "array"}, "text": {"type": "string"}, "n": {}},
        "required": ["text"],
    }
}


def call(arguments):
    text = '{"name": "send", "arguments": {' + arguments + "}}"
    return read_reply(text, TOOLS, finish_reason="stop")


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ('"text": "he said "yes" and left", "n": 1', {"text": 'he said "yes" and left', "n": 1}),
        ('"text": hello", "n": 1', {"text": "hello", "n": 1}),
        ('"text": "f(x) {}", "n": 1,', {"text": "f(x) {}", "n": 1}),
    ],
)
def test_a_single_guess_is_read_and_marked(arguments, parameters):
    turn = call(arguments)
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == parameters


@pytest.mark.parametrize(
    "arguments",
    [
        '"text": "a", "text": "b"',  # Mutant: the last one of two wins
        '"text": ":a"", "n": 1',  # Mutant: the edges of a string are not looked at
        '"to": ["ann, "bob"], "text": "he said "yes" and left"',  # Mutant: two kinds of guesses
        '"to": ["ann,\n "bob"], "text": "a"',  # Mutant: a comma between items is text
        '"text"" ,n": 1',  # Mutant: a key may hold marks of JSON
    ],
)
def test_a_guess_that_took_the_json_around_it_is_a_question(arguments):
    reply = call(arguments)
    assert isinstance(reply, Unparsed), reply
    assert reply.feedback


@pytest.mark.parametrize(
    ("parameters", "kinds", "doubtful"),
    [
        ({"text": '",\n "n"" :y'}, ["unescaped_quotes"], True),  # Mutant: no key is looked for
        ({"text": '{"city": [1]}'}, ["unescaped_quotes"], False),
        ({"text": "a}"}, ["missing_quote"], True),
        ({"text": "{a}"}, ["missing_quote"], False),
        ({"text": "a}"}, [], False),
        ({"text": "a"}, ["missing_quote", "missing_closer"], True),
        ({"edits": [{"old": "a"}, {"new": '{"old": 1'}]}, ["missing_closer"], True),
    ],
)
def test_a_string_that_holds_a_seam_is_not_believed(parameters, kinds, doubtful):
    repairs = [Repair(kind, "syntax", content=True) for kind in kinds]
    assert (doubt_of(parameters, repairs, ("text", "n")) is not None) == doubtful


def test_what_only_unwraps_or_retypes_a_call_raises_no_doubt():
    repairs = [Repair("located", "none"), Repair("beside_prose", "none", content=True)]
    assert doubt_of({"text": "a},", ",x": 1}, repairs, ()) is None
