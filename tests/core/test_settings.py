"""Settings of a model call: what each may be, at its edge, and which of two layers holds."""

from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import ModelSettings

ALL: dict[str, tuple[Any, Any]] = {
    "effort": ("low", "high"),
    "temperature": (0.0, 1.0),
    "top_p": (0.1, 1.0),
    "max_tokens": (10, 20),
    "prompt_cache": ("5m", "1h"),
    "service_tier": ("flex", "priority"),
}


@pytest.mark.scenario("TEA-35")
@pytest.mark.parametrize("name", ALL)
def test_what_a_call_says_holds_and_else_the_default(name: str) -> None:
    own, base = ALL[name]
    others = {other: pair[1] for other, pair in ALL.items() if other != name}
    merged = ModelSettings(**{name: own}).over(ModelSettings(**{name: base}))
    assert getattr(merged, name) == own
    beside = ModelSettings(**others).over(ModelSettings(**{name: base}))
    assert beside == ModelSettings(**{name: base}, **others)
    assert ModelSettings().over(ModelSettings(**{name: base})) == ModelSettings(**{name: base})
    assert ModelSettings(**{name: own}).over(ModelSettings()) == ModelSettings(**{name: own})


def test_a_providers_own_fields_are_merged_one_by_one() -> None:
    merged = ModelSettings(extra={"a": 1, "b": 2}).over(ModelSettings(extra={"b": 3, "c": 4}))
    assert merged.extra == {"a": 1, "b": 2, "c": 4}


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("temperature", 0, True),
        ("temperature", -0.01, False),
        ("temperature", 3, True),
        ("temperature", None, True),
        ("temperature", float("inf"), False),
        ("top_p", 0, False),
        ("top_p", 0.001, True),
        ("top_p", 1, True),
        ("top_p", 1.001, False),
        ("max_tokens", 0, True),
        ("max_tokens", -1, False),
        ("max_tokens", 1.5, False),
        ("effort", "low", True),
        ("effort", "lots", False),
        ("prompt_cache", "off", True),
        ("prompt_cache", "2h", False),
        ("service_tier", "", True),
        ("service_tier", 1, False),
        ("extra", {"seed": 7}, True),
        ("extra", [], False),
    ],
)
def test_a_setting_is_refused_outside_of_its_range(name: str, value: Any, fits: bool) -> None:
    if fits:
        assert getattr(ModelSettings.of({name: value}), name) == value
        return
    with pytest.raises(ConfigError, match="must be") as refused:
        ModelSettings.of({name: value}, "settings")
    assert refused.value.path == f"settings.{name}"


def test_a_setting_that_there_is_not_is_named_with_what_was_meant() -> None:
    with pytest.raises(ConfigError, match="temperature") as refused:
        ModelSettings.of({"temprature": 1})
    assert refused.value.path == "temprature"
    with pytest.raises(ConfigError, match="go into extra"):
        ModelSettings.of({"seed": 1})
