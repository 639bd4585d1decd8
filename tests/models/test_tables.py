"""Tables of models: rules, windows, prices."""

import json
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taofold.core.content import Conversation
from taofold.core.errors import ConfigError
from taofold.core.values import Effort, Message, ModelSettings, Usage
from taofold.models import prices as catalogue
from taofold.models.capabilities import UNKNOWN, reads_thinking, rules_for
from taofold.models.prices import FREE, Price, TokenRates, find, own_price
from taofold.runtime.model import Request, dearest
from taofold.runtime.providers import resolve
from tests.models.conftest import Connect
from tests.prerequisites import GIT

OLDEST = 30
"""Days: prices and windows that are older are no longer to be relied on."""


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the price library, even if it is installed."""
    monkeypatch.setattr(catalogue, "_library", lambda: None)


@GIT.mark
def test_the_snapshot_of_prices_is_not_stale() -> None:
    """As of the commit, not of today: a test that passed passes again."""
    command = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%cs"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not commit:
        pytest.skip("this is no clone of the repository: git clone it")
    made = date.fromisoformat(catalogue._snapshot()["as_of"])
    age = date.fromisoformat(commit) - made
    assert age.days <= OLDEST, "make the snapshot anew: python -m taofold.models.prices"


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("provider", "model", "window"),
    [
        ("openai", "gpt-5.6-sol", 922_000),
        ("openai", "gpt-4o-2024-08-06", 128_000),
        ("anthropic", "claude-opus-5-5", 1_000_000),
        ("anthropic", "claude-sonnet-4-5-20250929", 200_000),
        ("gemini", "gemini-3.7-flash", 1_000_000),
        ("anthropic", "claude-opus-9", 200_000),
        ("openai", "gpt-9-nova", 272_000),
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
    assert resolve("openai:next", api_key="k").profile.window == 272_000
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


def price_on(provider: str, model: str, moment: str, *, any_hour: bool = False) -> float:
    """Dollars for a million tokens of input at a moment in UTC."""
    entry = find(provider, model)
    assert entry is not None
    assert entry.price is not None
    at = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    return entry.price.on(at, any_hour=any_hour).rates.input


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("moment", "usd"),
    [
        ("2026-11-29T12:00", 2.0),
        # Nobody knows in which time zone the vendor's day begins.
        ("2026-11-30T13:00", 4.0),
        ("2026-12-01T00:00", 4.0),
        ("2027-06-01T00:00", 4.0),
    ],
)
def test_a_price_with_a_date_holds_from_that_day_on(moment: str, usd: float) -> None:
    assert price_on("gemini", "gemini-4-argon", moment) == usd


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("moment", "usd"),
    [
        ("2026-11-29T00:30", 0.66),
        ("2026-11-29T00:55", 1.32),  # the call may begin after one o'clock
        ("2026-11-29T02:00", 1.32),
        ("2026-11-29T05:00", 0.66),
        ("2026-11-29T09:59", 1.32),
    ],
)
def test_a_price_with_an_hour_holds_at_that_hour_and_budgets_at_any(
    moment: str, usd: float
) -> None:
    assert price_on("deepseek", "deepseek-v4-pro", moment) == usd
    assert price_on("deepseek", "deepseek-v4-pro", moment, any_hour=True) == 1.32


def test_hours_over_midnight_are_one_interval() -> None:
    cheap, dear = Price(TokenRates(1.0, 1.0, 1.0, 1.0)), TokenRates(2.0, 2.0, 2.0, 2.0)
    price = cheap._replace(validities=(catalogue.Validity(Price(dear), "", 22 * 60, 2 * 60),))
    for hour, usd in ((21, 1.0), (23, 2.0), (1, 2.0), (3, 1.0)):
        moment = datetime(2026, 11, 29, hour, tzinfo=UTC)
        assert price.on(moment).rates.input == usd
        assert price.on(moment, any_hour=True).rates.input == 2.0


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("model", "usual", "hour"),
    [
        ("claude-sonnet-5", 2.5, 4.0),
        ("claude-opus-5-5", 5.0, 8.0),
        ("claude-fable-5-2", 10.0, 16.0),
    ],
)
def test_what_the_cache_keeps_for_an_hour_costs_more(model: str, usual: float, hour: float) -> None:
    entry = find("anthropic", model)
    assert entry is not None
    assert entry.price is not None
    million = Usage(1_000_000, 0, 0, 0.0, 1_000_000)
    assert entry.price.cost(million) == pytest.approx(usual)
    assert entry.price.cost(million, written_long=1_000_000) == pytest.approx(hour)
    assert entry.price.cost(million, written_long=5_000_000) == pytest.approx(hour)
    assert entry.price.upper(1_000_000, 0) == pytest.approx(usual)
    assert entry.price.upper(1_000_000, 0, long_cache=True) == pytest.approx(hour)


def test_a_budget_counts_the_cache_of_a_requests_own_settings() -> None:
    model = resolve("anthropic:claude-sonnet-5", api_key="k")
    request = Request(
        Conversation([Message("user", "hi")]),
        settings=ModelSettings(prompt_cache="1h", max_tokens=1),
    )
    assert dearest(model, request, 1_000_000) == pytest.approx(4.0, abs=0.01)
    plain = msgspec.structs.replace(request, settings=ModelSettings(max_tokens=1))
    assert dearest(model, plain, 1_000_000) == pytest.approx(2.5, abs=0.01)


@pytest.mark.usefixtures("snapshot")
@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("xai", "grok-4.20-reasoning"),
        ("xai", "grok-4.3-latest"),
        ("mistral", "devstral-medium-latest"),
        ("mistral", "mistral-medium-3"),
        ("anthropic", "claude-mythos-5"),
        ("anthropic", "claude-mythos-5-1"),
        ("gemini", "gemini-4-hydrogen"),
    ],
)
def test_models_that_one_list_does_not_price_have_the_price_of_the_other(
    provider: str, model: str
) -> None:
    entry = find(provider, model)
    assert entry is not None
    assert entry.price is not None
    assert entry.price.rates.output > entry.price.rates.cached >= 0


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("ft:gpt-4.1-mini-2025-04-14:org::abc", "gpt-4.1-mini"),
        ("ft:gpt-4.1-mini-2025-04-14:org/team::abc", "gpt-4.1-mini"),
        ("ft:o4-mini-2025-04-16:org::abc", "o4-mini"),
        ("openai/ft:gpt-4o-2024-08-06:org::abc", "gpt-4o"),
    ],
)
def test_a_fine_tuned_model_has_the_rules_of_its_base(name: str, base: str) -> None:
    assert rules_for("openai", name) == rules_for("openai", base)


@pytest.mark.parametrize(
    "name", ["chatgpt-4o-latest", "gpt-audio-mini", "gpt-realtime", "gpt-5.3-chat-latest"]
)
def test_openai_names_that_do_not_think_are_not_taken_for_the_newest(name: str) -> None:
    rules = rules_for("openai", name)
    assert (rules.thinking, rules.sampling) == ("", "yes")


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("cerebras", "qwen-3.8-27b"),
        ("together", "llama-5-70b"),
        ("openrouter", "qwen/qwen4-72b"),
        ("groq", "meta-llama/llama-5-scout"),
        ("vllm", "qwen3.8-27b"),
        ("vllm", "Llama-3.3-70B"),
        ("fireworks", "accounts/fireworks/models/some-model-of-2027"),
        ("openrouter", "nvidia/nemotron-4-super"),
    ],
)
def test_open_weights_of_next_year_call_tools_natively(provider: str, model: str) -> None:
    assert rules_for(provider, model).tools


@pytest.mark.parametrize(
    ("provider", "model"),
    [("vllm", "llama-2-7b"), ("vllm", "qwen-1.5"), ("vllm", "mine"), ("openrouter", "x/roleplay")],
)
def test_other_open_weights_are_asked_in_text(provider: str, model: str) -> None:
    assert not rules_for(provider, model).tools


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("deepseek-flash", True),
        ("deepseek-v4-flash", True),
        ("deepseek-v4.1-flash", True),
        ("deepseek-v4-pro", False),
        ("deepseek-chat", False),
    ],
)
def test_the_flash_line_of_deepseek_sees_pictures(model: str, sees: bool) -> None:
    assert ("image" in (rules_for("deepseek", model).inputs or ())) is sees


@pytest.mark.parametrize("model", ["gemini-omni-1.1-flash", "gemini-robotics-er-2-preview"])
def test_gemini_lines_with_a_small_window_have_it(model: str) -> None:
    assert rules_for("gemini", model).window == 131_072


@pytest.mark.parametrize(
    ("spec", "wanted", "sent"),
    [
        ("deepseek:deepseek-v4-pro", "medium", {"reasoning_effort": "low"}),
        ("deepseek:deepseek-flash", "max", {"reasoning_effort": "max"}),
        ("deepseek:deepseek-v4-pro", "none", {"thinking": {"type": "disabled"}}),
        ("deepseek:deepseek-chat", "high", {}),
        ("moonshot:kimi-k3.1-pro", "high", {"reasoning_effort": "high"}),
        ("moonshot:kimi-k3", "none", {"reasoning_effort": "low"}),
        ("moonshot:kimi-k2.6", "none", {"thinking": {"type": "disabled"}}),
        ("moonshot:kimi-k2.6", "high", {}),
        ("zai:glm-5.3", "none", {"reasoning_effort": "low"}),
        ("zai:glm-5.3", "xhigh", {"reasoning_effort": "high"}),
        ("zai:glm-5.2", "minimal", {"reasoning_effort": "minimal"}),
        ("zai:glm-5.2", "none", {"thinking": {"type": "disabled"}}),
        ("zai:glm-4.7", "high", {}),
        ("xai:grok-4.3", "none", {"reasoning_effort": "none"}),
        ("xai:grok-4.6", "none", {"reasoning_effort": "low"}),
        ("xai:grok-4.7", "max", {"reasoning_effort": "xhigh"}),
        ("xai:grok-4.20-reasoning", "high", {}),
        ("xai:grok-5", "high", {"reasoning_effort": "high"}),
        ("mistral:mistral-large-4", "low", {"reasoning_effort": "high"}),
        ("mistral:mistral-medium-latest", "none", {"reasoning_effort": "none"}),
        ("mistral:mistral-large-2512", "high", {}),
    ],
)
@pytest.mark.anyio
async def test_each_vendor_is_sent_its_own_levels_of_thinking(
    connect: Connect, spec: str, wanted: Effort, sent: dict[str, Any]
) -> None:
    answer = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    reply = {"status": 200, "body": json.dumps(answer)}
    model, cassette = connect(spec, reply, profile=None, effort=wanted)
    await model.complete(Request(Conversation([Message("user", "hi")])))
    body = cassette.requests[0]
    assert {k: body[k] for k in ("reasoning_effort", "thinking") if k in body} == sent


def test_the_thinking_of_the_newest_pair_is_read_by_that_pair_alone() -> None:
    assert reads_thinking("claude-mythos-5-2", "claude-fable-5-2")
    assert not reads_thinking("claude-opus-5-5", "claude-fable-5-2")
    assert not reads_thinking("claude-fable-5-1", "claude-fable-5-2")
    assert reads_thinking("claude-fable-5-2", "claude-opus-5-5")
    assert reads_thinking("us.anthropic.claude-fable-5-2-v1:0", "claude-mythos-5-2")
