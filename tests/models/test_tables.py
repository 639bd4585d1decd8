"""Profiles and prices."""

import pytest

from taofold.core.values import Usage
from taofold.models.prices import FREE, PRICES, Price, price_of
from taofold.models.profiles import PROFILES, UNKNOWN, profile_of
from taofold.runtime.registry import resolve


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-5", 400_000),
        ("gpt-5-mini-2025-08-07", 400_000),
        ("openai/gpt-4o:free", 128_000),
        ("claude-sonnet-4-5-20250929", 200_000),
        ("llama3.1:8b", 131_072),
        ("Qwen/Qwen3-8B", 32_768),
        ("gpt-4o1", 8192),
        ("mystery", 8192),
    ],
)
def test_the_longest_name_in_the_table_decides(model: str, window: int) -> None:
    assert profile_of(model).window == window


def test_an_unknown_model_is_treated_with_caution() -> None:
    assert profile_of("mystery") == UNKNOWN
    assert not UNKNOWN.window_known
    assert not UNKNOWN.native_tools


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-4o", (2.5, 1.25, 10.0)),
        ("gpt-4o-mini-2024-07-18", (0.15, 0.075, 0.6)),
        ("anthropic/claude-sonnet-4-20250514", (3.0, 0.3, 15.0)),
        ("o3-pro", (20.0, 20.0, 80.0)),
        ("o1-pro", None),
        ("gpt-5.9", None),
        ("claude-opus-4-9", None),
        ("mystery", None),
    ],
)
def test_a_price_is_never_borrowed_from_another_model(
    model: str, price: tuple[float, ...] | None
) -> None:
    assert price_of(model) == price


def test_a_user_may_override_prices_by_exact_name() -> None:
    own = {"gpt-4o": (1.0, 2.0), "mine": (1.0, 0.5, 2.0)}
    assert price_of("gpt-4o", own) == (1.0, 1.0, 2.0)
    assert price_of("mine", own) == (1.0, 0.5, 2.0)
    assert price_of("gpt-4o-mini", own) == PRICES["gpt-4o-mini"]
    model = resolve("openai-compatible:mine", base_url="http://x", prices=own)
    assert model.price(1_000_000, 1_000_000) == 3.0


def test_cached_tokens_cost_less_and_the_upper_bound_ignores_them() -> None:
    price = Price(2.0, 1.0, 10.0)
    assert price.cost(Usage(1_000_000, 100_000, 500_000)) == 2.5
    assert price.upper(1_000_000, 100_000) == 3.0


def test_a_model_of_ones_own_costs_nothing_and_an_unknown_one_is_unknown() -> None:
    assert resolve("llamacpp:x").price(9, 9) == FREE.upper(9, 9) == 0.0
    assert resolve("openai-compatible:x", base_url="http://x").price(9, 9) is None


def test_every_price_is_sane() -> None:
    for name, (fresh, cached, output) in PRICES.items():
        assert 0 < cached <= fresh <= output, name
    assert all(profile.window_known for profile in PROFILES.values())
