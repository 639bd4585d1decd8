"""What is known of models: rules, windows, prices."""

from datetime import UTC, date, datetime

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Usage
from taofold.models import prices as catalogue
from taofold.models.capabilities import UNKNOWN, rules_for
from taofold.models.prices import FREE, Price, TokenRates, find, own_price
from taofold.runtime.providers import resolve

OLDEST = 30
"""Days: prices and windows that are older are no longer to be relied on."""


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, whether it is installed or not."""
    monkeypatch.setattr(catalogue, "_library", lambda: None)


def test_the_snapshot_of_prices_is_not_stale() -> None:
    made = date.fromisoformat(catalogue._snapshot()["as_of"])
    age = datetime.now(UTC).date() - made
    assert age.days <= OLDEST, "make the snapshot anew: python -m taofold.models.prices"


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("provider", "model", "window"),
    [
        ("openai", "gpt-5.6-sol", 1_050_000),
        ("openai", "gpt-4o-2024-08-06", 128_000),
        ("anthropic", "claude-opus-5-5", 1_000_000),
        ("anthropic", "claude-sonnet-4-5-20250929", 200_000),
        ("gemini", "gemini-3.7-flash", 1_000_000),
        ("anthropic", "claude-opus-9", 200_000),
        ("openai", "gpt-9-nova", 400_000),
        ("ollama", "llama3.1:8b", 32_768),
        ("openai-compatible", "mystery", 8_192),
    ],
)
def test_the_window_is_the_catalogues_then_the_rules(
    provider: str, model: str, window: int
) -> None:
    known = resolve(f"{provider}:{model}", api_key="k", base_url="http://127.0.0.1:9/v1")
    assert known.profile.window == window


def test_an_unknown_model_of_an_unknown_server_is_treated_with_caution() -> None:
    assert rules_for("openai-compatible", "mystery") == UNKNOWN
    profile = UNKNOWN.profile()
    assert not profile.window_known
    assert not profile.native_tools
    assert profile.inputs is None


def test_an_unknown_model_at_another_server_is_not_the_vendors_newest() -> None:
    """An 8k model would be sent 400k tokens, and images."""
    own = resolve("openai:my-model", base_url="http://127.0.0.1:9/v1").profile
    assert (own.window, own.window_known, own.thinking, own.inputs) == (8_192, False, "", None)
    assert own.native_tools
    assert resolve("openai:next", api_key="k").profile.window == 400_000
    known = resolve("openai:gpt-5.2", base_url="http://127.0.0.1:9/v1").profile
    assert known.window_known
    assert known.thinking


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "claude-nova-7"), ("openai", "next"), ("gemini", "next")]
)
def test_an_unknown_model_of_a_known_vendor_has_its_newest_rules(provider: str, model: str) -> None:
    rules = rules_for(provider, model)
    assert rules.tools
    assert rules.schema
    assert rules.thinking == "always"
    assert rules.inputs
    assert rules.bound or provider == "gemini"


@pytest.mark.parametrize(
    ("model", "thinking", "off", "sampling", "bound"),
    [
        ("claude-fable-5", "always", "", "no", False),
        ("claude-fable-5-1", "always", "", "no", True),
        ("claude-mythos-5-1", "always", "", "no", False),
        ("claude-mythos-5-2", "always", "", "no", True),
        ("claude-opus-5-5", "always", "", "no", True),
        ("claude-opus-6", "always", "", "no", True),
        ("claude-sonnet-5-5", "default", "between_tools", "no", True),
        ("claude-haiku-5-5-20260915", "default", "disabled", "no", True),
        ("claude-opus-5", "default", "disabled", "no", False),
        ("claude-sonnet-5-20260301", "default", "disabled", "no", False),
        ("claude-opus-4-7", "opt_in", "disabled", "no", False),
        ("claude-sonnet-4-6", "opt_in", "disabled", "yes", False),
        ("claude-opus-4-5-20251101", "opt_in", "disabled", "not_thinking", False),
        ("claude-3-5-sonnet-latest", "off", "disabled", "not_thinking", False),
        ("us.anthropic.claude-opus-5-5-v1:0", "always", "", "no", True),
        ("gpt-5", "always", "", "no", False),
        ("gpt-5.1", "opt_in", "none", "not_thinking", False),
        ("gpt-5.6-sol", "default", "none", "not_thinking", False),
        ("gpt-6-sol", "default", "none", "not_thinking", True),
        ("gpt-6-astra", "always", "", "no", True),
        ("gpt-6.1-sol-2026-09-29", "always", "", "no", True),
        ("gpt-5.4-pro", "always", "", "no", False),
        ("gpt-5-chat-latest", "", "", "yes", False),
        ("gpt-4.1-mini", "", "", "yes", False),
        ("o3-mini", "always", "", "no", False),
        ("gemini-3.7-flash", "always", "", "yes", False),
        ("gemini-2.5-flash", "default", "0", "yes", False),
        ("gemini-2.5-pro", "default", "", "yes", False),
        ("deepseek-v4-pro", "default", "disabled", "yes", False),
    ],
)
def test_what_a_model_takes_follows_from_vendor_line_and_version(
    model: str, thinking: str, off: str, sampling: str, bound: bool
) -> None:
    rules = rules_for("x", model)
    assert (rules.thinking, rules.off, rules.sampling, rules.bound) == (
        thinking, off, sampling, bound,
    )  # fmt: skip


def test_levels_of_thinking_follow_the_version() -> None:
    assert rules_for("openai", "gpt-5").efforts[0] == "minimal"
    assert rules_for("openai", "gpt-5.6-sol").efforts == (
        "none", "low", "medium", "high", "xhigh", "max",
    )  # fmt: skip
    assert "none" not in rules_for("openai", "gpt-6.2-astra").efforts
    assert "minimal" in rules_for("gemini", "gemini-3-flash-preview").efforts
    assert "minimal" not in rules_for("gemini", "gemini-3.7-flash").efforts


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("provider", "model", "price"),
    [
        ("openai", "gpt-4o", (2.5, 1.25, 10.0)),
        ("openai", "gpt-4o-mini-2024-07-18", (0.15, 0.075, 0.6)),
        ("openai", "gpt-5.6-sol", (4.0, 0.4, 20.0)),
        ("openai", "gpt-5.99", None),
        ("anthropic", "claude-opus-4-99", None),
        ("openai-compatible", "gpt-4o", None),
    ],
)
def test_a_price_is_never_borrowed_from_another_model_or_place(
    provider: str, model: str, price: tuple[float, ...] | None
) -> None:
    entry = find(provider, model)
    found = entry.price.rates[:3] if entry and entry.price else None
    assert found == price


@pytest.mark.usefixtures("snapshot")
def test_long_prompts_and_service_tiers_count() -> None:
    entry = find("openai", "gpt-6.1-sol")
    assert entry is not None
    assert entry.price is not None
    short, long = entry.price.upper(272_000, 0), entry.price.upper(272_001, 0)
    assert long > 1.9 * short
    usual = entry.price.cost(Usage(1000, 1000))
    assert entry.price.cost(Usage(1000, 1000), "priority") == pytest.approx(2 * usual)
    assert entry.price.cost(Usage(1000, 1000), "flex") == pytest.approx(usual / 2)
    assert entry.price.cost(Usage(1000, 1000), "default") == pytest.approx(usual)


def test_cached_and_written_tokens_have_their_own_rates() -> None:
    price = Price(TokenRates(2.0, 0.2, 10.0, 2.5))
    assert price.cost(Usage(1_000_000, 0)) == 2.0
    assert price.cost(Usage(1_000_000, 0, 1_000_000)) == 0.2
    assert price.cost(Usage(1_000_000, 0, 0, 0.0, 1_000_000)) == 2.5
    assert price.upper(1_000_000, 1_000_000) == 12.5


def test_a_user_may_override_prices_by_exact_name() -> None:
    own = {"gpt-4o": (1.0, 2.0), "mine": (1.0, 0.5, 2.0)}
    assert own_price("gpt-4o", own) == Price(TokenRates(1.0, 1.0, 2.0, 1.0))
    assert own_price("gpt-4o-mini", own) is None
    model = resolve("openai-compatible:mine", base_url="http://x", prices=own)
    assert model.price(1_000_000, 1_000_000) == 3.0


@pytest.mark.parametrize("price", [(1.0,), (1.0, -2.0), (1.0, 2.0, 3.0, 4.0)])
def test_a_price_that_is_none_is_refused(price: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="dollars per million"):
        own_price("m", {"m": price})  # type: ignore[dict-item]


def test_local_models_are_free_and_others_unknown() -> None:
    assert resolve("ollama:llama3.1").price(1000, 1000) == 0
    assert resolve("llamacpp:x").price(1000, 1000) == 0
    assert resolve("openai-compatible:mystery", base_url="http://x").price(1, 1) is None
    assert not any(FREE.rates)


def test_every_kind_of_match_is_understood() -> None:
    assert catalogue._matches(["or", [["equals", "a"], ["starts_with", "b"]]], "bc")
    assert catalogue._matches(["and", [["contains", "b"], ["ends_with", "c"]]], "abc")
    assert not catalogue._matches(["regex", "^b$"], "abc")
    assert not catalogue._matches(["new", "x"], "x")
