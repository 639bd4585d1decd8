"""The share of an agent holds all consumption that its events report."""

from taofold.core import events as e
from taofold.core.agent_shares import shares
from taofold.core.values import Usage


def test_consumption_without_a_reply_counts_for_the_active_agent() -> None:
    """Mutant: only replies and results count."""
    events: list[e.Event] = [
        e.RunStarted(goal="go", agent="first"),
        e.Replied(key="0", prompt="p", usage=Usage(10)),
        e.Charged(key="1", usage=Usage(20), model="m"),
        e.HandedOff(key="2", agent="second", before="first"),
        e.Charged(key="3", usage=Usage(5), model="m"),
    ]
    found = shares([e.Record("r", seq, seq, event) for seq, event in enumerate(events)])
    assert {name: share.usage.input_tokens for name, share in found.items()} == {
        "first": 30,
        "second": 5,
    }
