"""The rules about thoughts, against the labels of a reader who had not seen them."""

from tests.core.grounding_figures import figures


def test_the_rules_agree_on_grounding_as_often_as_the_documentation_states() -> None:
    held = figures("held")
    assert (held["grounded"], held["recognised"]) == (76, 50)
    assert (held["ungrounded accepted"], held["grounding agrees"]) == (22, 102)


def test_the_rules_find_as_many_aimless_thoughts_as_the_documentation_states() -> None:
    held = figures("held")
    assert (held["traces"], held["without an aim"]) == (150, 45)
    assert (held["caught"], held["false alarms"]) == (27, 0)
