"""The policy as tables: limits, roles, tiers; it fails closed and never loosens."""

from typing import Any

import pytest

from taofold import Limits, Policy, Principal, Tier
from taofold.core.errors import ConfigError
from taofold.core.events import LimitHit
from taofold.core.state import RunState
from taofold.core.values import Action, Observation, Step, Thought, Usage
from taofold.policy import ROLES, Facts, Repetition, digest, loosened, may
from taofold.policy.limits import Reserved
from taofold.policy.redaction import MARK, Redactor
from taofold.policy.repetition import WINDOW

STEP = Step(1, Thought("t"), (), ())


def state(steps: int = 0, **fields: Any) -> RunState:
    made = RunState(**fields)
    for _ in range(steps):
        made = RunState(**{**fields, "steps": made.steps.plus(STEP)})
    return made


@pytest.mark.parametrize(
    ("limits", "spent", "hit"),
    [
        (Limits(steps=3), state(2), None),
        (Limits(steps=3), state(3), "steps"),
        (Limits(steps=0), state(0), "steps"),
        (Limits(steps=3), state(0, model_calls=5), None),
        (Limits(steps=3), state(0, model_calls=6), "model_calls"),
        (Limits(model_calls=2), state(0, model_calls=1), None),
        (Limits(model_calls=2), state(0, model_calls=2), "model_calls"),
        (Limits(model_calls=4), state(0, model_calls=2, child_model_calls=2), "model_calls"),
        (Limits(steps=3), state(0, model_calls=2, child_model_calls=9), None),
        (Limits(tool_calls=1), state(0, tool_calls=9), None),
        (Limits(seconds=1), state(0, active_ms=999), None),
        (Limits(seconds=1), state(0, active_ms=1000), "seconds"),
        (Limits(tokens=10), state(0, usage=Usage(4, 5)), None),
        (Limits(tokens=10), state(0, usage=Usage(5, 5)), "tokens"),
        (Limits(usd=1), state(0, usage=Usage(usd=0.99)), None),
        (Limits(usd=1), state(0, usage=Usage(usd=1.0)), "usd"),
    ],
)
def test_each_limit_forbids_a_turn_at_its_bound(limits: Limits, spent: Any, hit: Any) -> None:
    assert limits.hit(spent) == hit


@pytest.mark.parametrize(
    ("limits", "spent", "last"),
    [
        (Limits(steps=3), state(1), None),
        (Limits(steps=3), state(2), "steps"),
        (Limits(steps=1), state(0), "steps"),
        (Limits(model_calls=3), state(0, model_calls=1), None),
        (Limits(model_calls=3), state(0, model_calls=2), "model_calls"),
        (Limits(tool_calls=2), state(0, tool_calls=1), None),
        (Limits(tool_calls=2), state(0, tool_calls=1, child_tool_calls=1), "tool_calls"),
    ],
)
def test_the_last_turn_is_the_one_before_the_bound(limits: Limits, spent: Any, last: Any) -> None:
    assert limits.last(spent) == last


@pytest.mark.parametrize(
    ("limits", "spent", "ready", "blocked"),
    [
        (Limits(tool_calls=3), state(0, tool_calls=2), (), False),
        (Limits(tool_calls=3), state(0, tool_calls=3), (), True),
        (Limits(tool_calls=3), state(0, tool_calls=1), ("a", "b"), True),
        (Limits(per_tool={"a": 2}), state(0, per_tool={"a": 1}), (), False),
        (Limits(per_tool={"a": 2}), state(0, per_tool={"a": 1}), ("a",), True),
        (Limits(per_tool={"a": 2}), state(0, per_tool={"a": 1}), ("b",), False),
        (Limits(per_tool={"a": 0}), state(0), (), True),
        (Limits(seconds=1), state(0, active_ms=1000), (), True),
        (Limits(), state(0, tool_calls=99), (), False),
    ],
)
def test_a_call_is_blocked_at_its_bound_inside_a_batch_too(
    limits: Limits, spent: Any, ready: Any, blocked: bool
) -> None:
    held = [Reserved(tool_calls=1, per_tool={tool: 1}) for tool in ready]
    assert bool(limits.blocks(spent, "a", held)) == blocked


def test_calls_under_way_count_against_a_call() -> None:
    assert Limits(tool_calls=3).blocks(state(), "a", [Reserved(tool_calls=3)])


def test_all_that_a_child_may_consume_is_held_and_what_is_unbounded_is_not() -> None:
    bounded = Limits(model_calls=2, tool_calls=3, tokens=4, usd=0.5, per_tool={"look": 1})
    assert bounded.reserved() == Reserved(2, 3, 4, 0.5, {"look": 1})
    open_ = Limits(model_calls=None, tool_calls=None, tokens=None, usd=None)
    assert open_.reserved() == Reserved(0, 0, 0, 0.0, {})


def test_what_is_left_is_shared_and_never_negative() -> None:
    limits = Limits(tokens=100, tool_calls=10, usd=1.0, model_calls=9, seconds=9)
    spent = state(
        0,
        usage=Usage(10, 10, usd=0.2),
        tool_calls=1,
        child_tool_calls=1,
        model_calls=1,
        active_ms=4000,
    )
    left = limits.left(spent, [Reserved(tokens=20, tool_calls=2, usd=0.4, model_calls=2)], 2)
    assert (left.tokens, left.tool_calls, left.model_calls, left.seconds) == (30, 3, 3, 5.0)
    assert left.usd == pytest.approx(0.2)
    assert left.depth == limits.depth - 1
    assert Limits(tokens=1).left(state(0, usage=Usage(9, 9))).tokens == 0
    assert Limits().left(state()).tokens is None


def test_limits_within_others_are_the_tighter_of_both() -> None:
    both = Limits(steps=5, tokens=9).within(Limits(steps=9, usd=1.0, per_tool={"a": 1}))
    assert (both.steps, both.tokens, both.usd, both.per_tool) == (5, 9, 1.0, {"a": 1})


SPENT = state(
    3, tool_calls=4, child_tool_calls=1, active_ms=2_340, usage=Usage(900, 334, usd=0.12345)
)


@pytest.mark.parametrize(
    ("limits", "hit", "said"),
    [
        (Limits(steps=3), LimitHit("1", "steps", 1), "all 3 steps were used: raise limits.steps"),
        (
            Limits(steps=3),
            LimitHit("1", "model_calls", 1),
            "all 6 model calls were used, 3 more than limits.steps: raise limits.model_calls",
        ),
        (
            Limits(model_calls=2),
            LimitHit("1", "model_calls", 1),
            "all 2 model calls were used: raise limits.model_calls",
        ),
        (
            Limits(tool_calls=5),
            LimitHit("1", "tool_calls", 1),
            "5 of 5 tool calls were used: raise limits.tool_calls",
        ),
        (
            Limits(seconds=2),
            LimitHit("1", "seconds", 1),
            "it worked for 2.3 of 2 seconds: raise limits.seconds",
        ),
        (
            Limits(tokens=1000),
            LimitHit("1", "tokens", 1),
            "1,234 of 1,000 tokens were spent: raise limits.tokens",
        ),
        (
            Limits(tokens=2000),
            LimitHit("1", "tokens", 1, needed=1500),
            "1,234 of 2,000 tokens were spent, and the next prompt alone has about 1,500: "
            "raise limits.tokens",
        ),
        (
            Limits(usd=0.5),
            LimitHit("1", "usd", 1, needed=0.4),
            "$0.1235 of $0.5000 was spent, and the next call may cost up to $0.4000: "
            "raise limits.usd, or bound the answer with max_tokens",
        ),
        (
            Limits(tokens=9),
            LimitHit("1", "tokens", 1, allowed=1200),
            "1,234 of 1,200 tokens were spent: raise limits.tokens",
        ),
    ],
)
def test_a_limit_that_was_hit_says_what_was_allowed_spent_and_what_to_change(
    limits: Limits, hit: LimitHit, said: str
) -> None:
    assert limits.explained(hit, SPENT) == said
    change = f"raise limits.{hit.limit}"
    assert limits.explained(hit, SPENT, "of it") == said.replace(change, f"{change} of it")


@pytest.mark.parametrize("name", ["steps", "model_calls", "tool_calls", "seconds", "tokens", "usd"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_limit_below_zero_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        Limits(**{name: value})


def test_the_chat_preset_is_the_seeds() -> None:
    chat = Limits.chat()
    assert (chat.steps, chat.model_calls, chat.tool_calls) == (8, 8, 5)
    assert Limits().calls == 13
    assert Limits(steps=0).calls == 0
    assert Limits(steps=None).calls is None


@pytest.mark.scenario("RCT-08")
def test_roles_fail_closed() -> None:
    assert ROLES == {"VIEWER": 10, "BILLING": 20, "USER": 30, "EDITOR": 30, "ADMIN": 40}
    for held in ROLES:
        for needed in ROLES:
            assert may([held], needed) == (ROLES[held] >= ROLES[needed])
    assert may([], "")
    assert not may([], "VIEWER")
    assert not may(["WIZARD"], "VIEWER")
    assert not may(["ADMIN"], "WIZARD")
    assert may(["WIZARD"], "WIZARD", {"WIZARD": 5})
    assert may(["VIEWER", "ADMIN"], "ADMIN")


def test_a_policy_only_raises_tiers() -> None:
    facts = Facts(Tier.CONFIRM, "once")
    assert Policy(tiers={"t": Tier.AUTO}).tier("t", facts) == Tier.CONFIRM
    assert Policy(tiers={"t": Tier.FORBIDDEN}).tier("t", facts) == Tier.FORBIDDEN
    quiet = Policy(production_tiers={"t": Tier.FORBIDDEN})
    assert quiet.tier("t", facts) == Tier.CONFIRM


def test_allow_and_deny_name_tools() -> None:
    facts, who = Facts(Tier.AUTO, "read"), Principal()
    assert Policy(allow=frozenset({"b"})).rule(Action("a"), facts, who).verdict == "deny"
    assert Policy(allow=frozenset({"a"})).rule(Action("a"), facts, who).verdict == "allow"
    both = Policy(allow=frozenset({"a"}), deny=frozenset({"a"}))
    assert both.rule(Action("a"), facts, who).verdict == "deny"


def test_a_required_role_of_the_policy_wins_over_the_tools() -> None:
    facts = Facts(Tier.AUTO, "read", role="VIEWER")
    ruling = Policy(required={"a": "ADMIN"}).rule(Action("a"), facts, Principal("x", ("EDITOR",)))
    assert ruling.verdict == "deny"
    assert "ADMIN" in ruling.reason
    assert "EDITOR" in ruling.reason


def test_both_policies_at_once_are_as_strict_as_either() -> None:
    one = Policy(autonomy="autonomous", deny=frozenset({"a"}), tiers={"x": Tier.CARD})
    two = Policy(
        autonomy="conservative",
        allow=frozenset({"a", "b"}),
        tiers={"x": Tier.CONFIRM},
        required={"b": "ADMIN"},
        approve_seconds=60,
        own_approval=False,
        production=True,
    )
    for both in (one.tightened(two), two.tightened(one)):
        assert both.autonomy == "conservative"
        assert both.deny == {"a"}
        assert both.allow == {"a", "b"}
        assert both.tiers["x"] == Tier.CONFIRM
        assert both.required == {"b": "ADMIN"}
        assert both.production
        assert not both.own_approval
        assert both.approve_seconds == 60


@pytest.mark.parametrize(
    ("own", "other", "both"),
    [
        ("USER", "ADMIN", "ADMIN"),
        ("ADMIN", "USER", "ADMIN"),
        ("", "USER", ""),
        ("ADMIN", "", "ADMIN"),
        ("USER", "nobody has it", "nobody has it"),
    ],
)
def test_the_higher_role_decides_for_others(own: str, other: str, both: str) -> None:
    assert Policy(approvers=own).tightened(Policy(approvers=other)).approvers == both


def test_a_project_may_not_loosen_what_the_operator_says() -> None:
    operator = Policy(
        autonomy="balanced",
        tiers={"x": Tier.CONFIRM},
        required={"y": "ADMIN"},
        allow=frozenset({"x"}),
    )
    project = Policy(
        autonomy="autonomous",
        tiers={"x": Tier.AUTO},
        required={"y": "VIEWER"},
        allow=frozenset({"x", "z"}),
    )
    assert len(loosened(project, operator)) == 4
    assert not loosened(Policy(), Policy())


def test_a_digest_is_bound_to_tool_arguments_and_definition() -> None:
    said = digest(Action("a", {"x": 1, "y": 2}), "d")
    assert said == digest(Action("a", {"y": 2, "x": 1}, rationale="other"), "d")
    others = [(Action("b", {"x": 1, "y": 2}), "d"), (Action("a", {"x": 1, "y": 3}), "d")]
    assert all(digest(*other) != said for other in [*others, (Action("a", {"x": 1, "y": 2}), "e")])


def test_a_version_changes_with_anything_that_could_change_a_ruling() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"autonomy": "autonomous"},
        {"tiers": {"a": Tier.CARD}},
        {"deny": frozenset({"a"})},
        {"allow": frozenset({"a"})},
        {"required": {"a": "ADMIN"}},
        {"production": True},
        {"production_tiers": {"a": Tier.CARD}},
        {"approvers": "ADMIN"},
        {"own_approval": False},
        {"roles": {"ADMIN": 1}},
    ]
    versions = {Policy(**change).version for change in changes}
    assert len(versions) == len(changes)
    assert Policy().version == Policy().version


@pytest.mark.parametrize("status", ["success", "failure"])
def test_the_guard_allows_three_and_asking_changes_nothing(status: Any) -> None:
    guard, action = Repetition(), Action("a", {"x": 1})
    for _ in range(2):
        guard.seen(Step(1, Thought("t"), (action,), (Observation("same", "success"),)))
    assert guard.judge(action).level == guard.judge(action).level == "run"
    assert guard.hint
    assert guard.judge(action, "", 1).level == "blocked"
    guard.seen(Step(1, Thought("t"), (action,), (Observation("same", status),)))
    assert guard.judge(action).level == (
        "blocked" if status == "success" else "repeat_same_action_unchanged"
    )


def test_a_call_counts_as_repeated_only_within_the_window() -> None:
    def seen(action: Action) -> None:
        guard.seen(Step(1, Thought("t"), (action,), (Observation("same", "success"),)))

    guard, action = Repetition(), Action("a", {"x": 1})
    for _ in range(3):
        seen(action)
    assert guard.judge(action).level == "blocked"
    for number in range(WINDOW):
        seen(Action("b", {"x": number}))
    assert guard.judge(action).level == "run"


@pytest.mark.scenario("RCT-18")
def test_whoever_decides_needs_the_role_that_the_call_needs() -> None:
    policy, facts = Policy(approvers="EDITOR"), Facts(Tier.CONFIRM, "once", role="ADMIN")
    asked = Principal("bob", ("USER",))
    deciders = {"EDITOR": "requires role ADMIN", "ADMIN": "", "VIEWER": "not yours"}
    for role, why in deciders.items():
        said = policy.may_decide(Principal("ann", (role,)), asked, facts, "publish")
        assert why in said
        assert bool(said) == bool(why)
    assert "requires role ADMIN" in policy.may_decide(asked, asked, facts, "publish")


def test_secrets_are_recognised_by_shape_name_and_value() -> None:
    redactor = Redactor(["my-own-secret-value"], guesses=True)
    for text in (
        "sk-" + "a" * 30,
        "ghp_" + "b" * 30,
        "AKIA" + "C" * 16,
        "password: hunter2x",
        "https://user:pass1234@host/x",
        "Bearer " + "d" * 29 + "7",
        "my-own-secret-value",
    ):
        assert MARK in redactor.text(f"before {text} after"), text
    assert redactor.text("nothing secret in task-skills") == "nothing secret in task-skills"
    plain = {"a": ["x", 1, None]}
    assert redactor.json(plain) is plain
    assert redactor.json({"a": ["my-own-secret-value"]}) == {"a": [MARK]}
    assert Redactor.secrets_in({"API_KEY": "k", "PATH": "p"}) == ("k",)


def test_passwords_in_addresses_and_under_other_names_are_known() -> None:
    """Mutants: names alone count; an encoded password is known in encoded form only."""
    environment = {
        "DATABASE_URL": "postgres://shop:p%40ss-word%211@db.example:5432/shop",
        "HTTP_PROXY": "http://ann:hunter2-hunter2@proxy:3128",
        "DOCS_URL": "https://example.com/a:b@c",
        "SSHPASS": "s1", "ROOTPW": "s2", "WIFI_PSK": "s3", "SESSION_COOKIE": "s4",
        "BEARER": "s5", "SENTRY_DSN": "s6", "AZURE_STORAGE_CONNECTION_STRING": "s7",
        "SLACK_WEBHOOK_URL": "s8", "WALLET_MNEMONIC": "s9",
        "PASSENGER_APP_ENV": "production", "COMPASS": "north", "HOSTNAME": "box",
    }  # fmt: skip
    found = Redactor.secrets_in(environment)
    assert {f"s{number}" for number in range(1, 10)} < {*found}
    assert {"p%40ss-word%211", "p@ss-word!1", "hunter2-hunter2"} < {*found}
    assert {"production", "north", "box"}.isdisjoint(found)
    assert "/a:b@c" not in " ".join(found)
    shown = Redactor(found).text("connected as shop with p@ss-word!1")
    assert shown == "connected as shop with [redacted]"


def test_the_working_directory_is_no_secret_though_its_variable_reads_like_a_password() -> None:
    environment = {"PWD": "/home/jörg/My Project", "OLDPWD": "/home/jörg", "DB_PWD": "hunter2"}

    assert Redactor.secrets_in(environment) == ("hunter2",)


@pytest.mark.parametrize("name", ["Authorization", "authorization", "Cookie", "Set-Cookie"])
def test_what_stands_under_a_credential_header_is_secret_however_short(name: str) -> None:
    redactor = Redactor(guesses=True)

    assert redactor.json({name: "a1"}) == {name: MARK}
    assert redactor.json({name: "${TOKEN}"}) == {name: "${TOKEN}"}
    assert redactor.json({name: "required"}) == {name: "required"}


def test_a_tool_that_declares_nothing_asks_and_says_what_to_declare() -> None:
    undeclared = Facts(Tier.CARD, "once", undeclared=True)
    ruling = Policy().rule(Action("look"), undeclared, Principal())
    assert ruling.verdict == "ask"
    assert '@tool(effect="read")' in ruling.reason
    # The declaration would change nothing where the policy itself wants it asked about.
    raised = Policy(tiers={"look": Tier.CARD}).rule(Action("look"), undeclared, Principal())
    assert (raised.verdict, raised.reason) == ("ask", "tier 2 asks")
    declared = Policy().rule(Action("look"), Facts(Tier.CARD, "once"), Principal())
    assert declared.reason == "tier 2 asks"


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan"), 1e10, True, "60", None])
def test_the_validity_of_a_question_is_a_time_that_can_be_recorded(seconds: Any) -> None:
    """An infinite one ended the run that asked. Mutant, tried: the number is not checked."""
    with pytest.raises(ConfigError, match="seconds, not") as caught:
        Policy(approve_seconds=seconds)
    assert caught.value.path == "policy.approve_seconds"
