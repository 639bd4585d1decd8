"""The W3C header of a trace: what is read of it."""

import pytest

from taofold.core.events import ForeignCall
from taofold.runtime.trace_context import TraceContext

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("03", True), ("10", False), ("fe", False)]
)
def test_the_lowest_bit_of_the_hexadecimal_flags_says_whether_it_is_sampled(
    flags: str, sampled: bool
) -> None:
    assert TraceContext.parse(f"00-{TRACE}-{SPAN}-{flags}") == TraceContext(TRACE, SPAN, sampled)


def test_a_call_of_another_store_is_not_taken_to_have_begun_unless_its_file_says_so() -> None:
    assert not ForeignCall("pay", "pay {}").started
