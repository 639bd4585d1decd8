"""The cause of the first difference between a stored run and its replay.

A cause names the part that changed: the prompt, the parser of replies, the policy, the schemas of
tools and answers, or the strategy. The messages and the offer of a call are compared before its
reply is read. So a step that differs under an equal request was read differently, and a verdict
that differs on an equal step was ruled differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from taofold.agent import Agent
from taofold.core import events as e
from taofold.core.difference import first_difference
from taofold.core.errors import ReplayDiverged
from taofold.core.text import line
from taofold.core.values import Observation
from taofold.policy.limits import LIMIT_REFUSALS
from taofold.policy.redaction import MARK
from taofold.runtime.model_calls import SentDigests

Cause: TypeAlias = Literal["prompt", "parser", "policy", "schema", "strategy"]
CAUSES: Final[tuple[Cause, ...]] = ("prompt", "parser", "policy", "schema", "strategy")

_REFUSED: Final[dict[str, Cause]] = {
    **dict.fromkeys(LIMIT_REFUSALS, "policy"),
    "denied": "policy",
    "expired": "policy",
    "masked": "policy",
    "blocked": "policy",
    "toolless": "policy",
    "stop": "policy",
    "repeat_same_action_unchanged": "policy",
    "malformed": "parser",
    "guessed": "parser",
    "unknown": "schema",
    "invalid": "schema",
}
_GUARDS: Final = ("repetition", "repeat_same_action_unchanged")
"""Rules of the guard against repetition, in `Violated`."""
_CUT: Final = 200


@dataclass(frozen=True, slots=True)
class RunDifference:
    """The first difference of a run.

    Args:
        cause: The part that changed.
        what: The kind of difference, equal in all runs of a group.
        key: The place in the strategy.
        recorded: The recorded value, shortened.
        now: The value that this code derives, shortened.
        in_request: True if a request to the model differs.
        place: The place in the event or value that differs; "" if it differs as a whole.
        hint: A probable cause.
    """

    cause: Cause
    what: str
    key: str
    recorded: str
    now: str
    in_request: bool = False
    place: str = ""
    hint: str = ""


def difference_of(
    error: ReplayDiverged, records: Sequence[e.Record], agent: Agent[Any, Any]
) -> RunDifference:
    """Returns the difference that stopped a replay, with its cause.

    Args:
        error: The error of the replay.
        records: The run.
        agent: The agent with which it was replayed.
    """
    started = records[0].event
    assert isinstance(started, e.RunStarted)
    cause, what = _cause(error, records, started, agent)
    place, recorded, now = first_difference(error.recorded, error.requested)
    if place in ("", "verdict"):
        recorded = _verdict_text(error.recorded, records) or recorded
        now = _verdict_text(error.requested, records) or now
    if isinstance(error.recorded, SentDigests):
        # A digest shows nothing: the log holds no prompt, but it holds the instructions.
        place, recorded, now = "", *(_reworded(started, agent) or ("", ""))
    in_request = isinstance(error.recorded, SentDigests)
    return RunDifference(
        cause,
        what,
        error.key,
        line(recorded, _CUT),
        line(now, _CUT),
        in_request,
        place,
        error.hint,
    )


def _verdict_text(event: object, records: Sequence[e.Record]) -> str:
    """Returns the decision with the tool of its call; "" for another event."""
    if not isinstance(event, e.Decided):
        return ""
    steps = [r.event for r in records if isinstance(r.event, e.Proposed)]
    actions = next((step.actions for step in reversed(steps) if step.key == event.key), ())
    tool = actions[event.index].tool if event.index < len(actions) else ""
    about = f" (tool {tool})" if tool else ""
    reason = f": {event.reason}" if event.reason else ""
    return f"{event.by} verdict: {event.verdict}{about}{reason}"


def strategy_differs(started: e.RunStarted, agent: Agent[Any, Any]) -> RunDifference | None:
    """Returns the difference if the agent has another strategy than the run, else None."""
    strategy = agent.plan.strategy
    if strategy == started.strategy:
        return None
    return RunDifference("strategy", "another strategy", "", started.strategy, strategy)


def _cause(
    error: ReplayDiverged,
    records: Sequence[e.Record],
    started: e.RunStarted,
    agent: Agent[Any, Any],
) -> tuple[Cause, str]:
    match error.recorded, error.requested:
        case SentDigests() as recorded, SentDigests() as requested:
            cause, what = _of_request(recorded, requested, started, agent)
            return cause, what if cause == "schema" else f"{what}, {_which(records, error.key)}"
        case None, e.Proposed() if _was_refused(records, error.key):
            return "parser", "a reply is read that could not be read"
        case e.Proposed() as recorded, e.Proposed() as requested:
            return _of_step(recorded, requested)
        case e.Decided() as recorded, e.Decided() as requested:
            return _of_verdict(recorded, requested)
        case e.Observed() as recorded, e.Observed() as requested:
            return _of_result(recorded.observation, requested.observation)
        case e.Started(), e.Started():
            return "schema", "the effect of a tool"
        case e.RunFinished() as recorded, e.RunFinished() as requested:
            return _of_end(recorded, requested)
        case e.Compacted(), e.Compacted():
            return "prompt", "how older steps are shortened"
        case recorded, requested:
            # One side lacks the event: the other one names its kind.
            event = requested if isinstance(requested, e.Happened) else recorded
            return _of_event(event, is_new=isinstance(requested, e.Happened))


def _which(records: Sequence[e.Record], key: str) -> str:
    asked = next((r.event for r in records if isinstance(r.event, e.Replied)), None)
    return (
        "in the first request" if asked is not None and asked.key == key else "in a later request"
    )


def _was_refused(records: Sequence[e.Record], key: str) -> bool:
    """Returns whether the record has a rule that the reply before `key` broke."""
    broken = [record.event for record in records if isinstance(record.event, e.Violated)]
    return any([event.key == key and event.rule not in _GUARDS for event in broken])


def _of_request(
    recorded: SentDigests, requested: SentDigests, started: e.RunStarted, agent: Agent[Any, Any]
) -> tuple[Cause, str]:
    offer = recorded.offer != requested.offer
    if recorded.prompt == requested.prompt:
        return "schema", "tools or schema of the request"
    reworded = _reworded(started, agent)
    if reworded is not None:
        return "prompt", "the agent's instructions"
    if offer:
        # In a text protocol the prompt describes the tools, so both differ.
        return "schema", "tools or schema, and the prompt that describes them"
    # A text protocol describes the tools in the messages.
    is_text = not started.profile.native_tools and bool(agent.offers)
    return "prompt", "the messages, or a tool's description" if is_text else "the messages"


def _reworded(started: e.RunStarted, agent: Agent[Any, Any]) -> tuple[str, str] | None:
    recorded, now = started.settings.get("instructions", ""), agent.noted.get("instructions", "")
    if callable(agent.instructions) or recorded == now:
        return None
    _, old, new = first_difference(recorded, now)
    return old, new


def _of_step(recorded: e.Proposed, requested: e.Proposed) -> tuple[Cause, str]:
    if (MARK in str(recorded)) != (MARK in str(requested)):
        return "policy", "the secrets that are masked in a step"
    if recorded.thought != requested.thought and recorded.actions == requested.actions:
        return "parser", "the thought read from a reply"
    return "parser", "the calls read from a reply"


def _of_verdict(recorded: e.Decided, requested: e.Decided) -> tuple[Cause, str]:
    if recorded.verdict != requested.verdict:
        return "policy", f"a verdict: {recorded.verdict} → {requested.verdict}"
    if recorded.tier != requested.tier or recorded.reason != requested.reason:
        return "policy", "the tier or the reason of a verdict"
    if recorded.digest != requested.digest:
        return "schema", "the definition of a tool"
    return "policy", "a verdict"


def _of_result(recorded: Observation, requested: Observation) -> tuple[Cause, str]:
    kind = requested.refused or recorded.refused
    if kind:
        word = "refused" if requested.refused else "no longer refused"
        return _REFUSED.get(kind, "strategy"), f"a call is {word} ({kind})"
    return "strategy", "a result that the strategy gave"


def _of_end(recorded: e.RunFinished, requested: e.RunFinished) -> tuple[Cause, str]:
    if recorded.stop_reason != requested.stop_reason:
        ends = f"the end: {recorded.stop_reason} → {requested.stop_reason}"
        limited = "limited" in (recorded.status, requested.status)
        return "policy" if limited else "strategy", ends
    if recorded.output != requested.output or recorded.accepted != requested.accepted:
        return "parser", "the answer read from a reply"
    return "strategy", "the error text of the end"


def _of_event(event: object, *, is_new: bool) -> tuple[Cause, str]:
    more = "a new event" if is_new else "an event that is gone"
    match event:
        case e.Violated(rule=rule) if rule in _GUARDS:
            return "policy", f"{more}: the guard against repetition"
        case e.Violated(rule=rule):
            return "parser", f"{more}: a reply is judged ({rule})"
        case e.LimitHit(limit=limit):
            return "policy", f"{more}: the limit {limit}"
        case e.Decided() | e.Resolved():
            return "policy", f"{more}: a verdict"
        case e.Proposed():
            # A reply that cannot be read breaks a rule, which is compared before.
            return "strategy", f"{more}: a step"
        case e.Compacted():
            return "prompt", f"{more}: older steps are shortened"
        case e.Observed(observation=observation) if observation.refused:
            kind = observation.refused
            return _REFUSED.get(kind, "strategy"), f"{more}: a refused call ({kind})"
        case e.Started():
            return "policy", f"{more}: a call starts"
        case e.Noted(kind=kind) if kind in ("backoff", "budget"):
            return "policy", f"{more}: {kind}"
        case e.Noted(kind=kind) if kind in ("unread", "corrected"):
            return "parser", f"{more}: a reply could not be read"
        case e.Happened():
            return "strategy", f"{more}: {event.tag}"
        case _:
            return "strategy", "another effect"
