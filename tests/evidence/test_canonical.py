"""The canonical form equals that of the library, except for numbers that the library refuses."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from taofold.evidence import verifier
from taofold.evidence.canonical import canonical, canonical_lines, decoded
from taofold.evidence.chain import genesis, leaves, links

VECTORS = json.loads(
    (Path(__file__).parents[2] / "conformance" / "evidence.json").read_text(encoding="utf-8")
)
EXACT = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.one_of(
    st.integers(-EXACT, EXACT),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**18), 10**18).map(lambda number: number / 1000),
    st.builds("{}e{}".format, st.integers(-9, 9), st.integers(-30, 30)).map(float),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
@example({"\uffff": 1, "\U00010000": 2, "é": 3, "a": -0.0})
@example([5e-324, 1.7976931348623157e308, 1e21, 1e-7, 1e-6, 123456789012345680.0])
def test_the_form_equals_that_of_the_library(value: Any) -> None:
    expected = rfc8785.dumps(value)
    assert canonical(msgspec.json.encode(value)) == expected
    # Another writer's text of the same value: escapes, spaces and another order.
    assert canonical(json.dumps(value, indent=1).encode()) == expected
    assert canonical(expected) == expected


@given(st.lists(VALUES, max_size=4))
@example([{"\uffff": 1, "\U00010000": 2}, {"b": "\n\u2028", "a": 1e30}])
def test_values_encoded_together_have_the_form_of_each(values: list[Any]) -> None:
    texts = [msgspec.json.encode(value) for value in values]
    assert canonical_lines([decoded(text) for text in texts]) == [
        rfc8785.dumps(value) for value in values
    ]


@given(VALUES, VALUES)
def test_two_values_have_one_form_only_if_they_are_equal(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    if same:
        assert canonical(msgspec.json.encode(one)) == canonical(msgspec.json.encode(other))
    elif canonical(msgspec.json.encode(one)) == canonical(msgspec.json.encode(other)):
        # Only the type of a whole number, and the sign of zero, are not part of the form.
        assert one == other


@pytest.mark.parametrize("number", [2**53, 2**53 + 1, -(2**63) - 1, 10**40])
def test_whole_numbers_keep_their_digits(number: int) -> None:
    with pytest.raises(rfc8785.IntegerDomainError):
        rfc8785.dumps(number)
    assert canonical(b"[%d]" % number) == b"[%d]" % number


def test_a_number_beyond_floats_has_no_form() -> None:
    assert math.isinf(float("1e400"))
    with pytest.raises(ValueError, match="not representable"):
        canonical(b"[1e400]")


def test_the_nearest_float_of_a_long_fraction_counts() -> None:
    assert canonical(b"[0.1000000000000000055, 1.10]") == b"[0.1,1.1]"


@pytest.mark.parametrize(("text", "form"), VECTORS["canonical"])
def test_the_shared_texts_have_the_forms_that_rust_writes_too(text: str, form: str) -> None:
    assert canonical(text.encode()).decode() == form
    assert verifier.canonical(verifier.read_json(text)) == form


@pytest.mark.parametrize(("text", "form"), VECTORS["repeated_keys"])
def test_of_a_repeated_key_the_last_value_counts_and_verifiers_refuse_it(
    text: str, form: str
) -> None:
    assert canonical(text.encode()).decode() == form
    with pytest.raises(ValueError, match="twice"):
        verifier.read_json(text)


@pytest.mark.parametrize("text", VECTORS["refused"])
def test_the_shared_texts_without_a_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each text has another message
        canonical(text.encode())
    with pytest.raises(ValueError):  # noqa: PT011 - as above
        verifier.canonical(verifier.read_json(text)).encode()


def test_the_shared_chain_has_the_links_that_rust_writes_too() -> None:
    chain = VECTORS["chain"]
    rows = [(seq, each["at"], each["body"].encode()) for seq, each in enumerate(chain["records"])]
    found = links(genesis(chain["log"], chain["run"]), leaves(chain["run"], 2, rows))
    assert [link.hex() for link in found] == [each["link"] for each in chain["records"]]
