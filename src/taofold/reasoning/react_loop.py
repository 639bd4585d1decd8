"""ReAct: think, act, observe, until there is an answer (Yao et al., 2022).

A pure generator: limits, policy, tools and repetition belong to the runtime, which reports them as
an `Outlook`. Only `_Attempts` reads replies, retries unreadable ones and enforces the rules of the
loop on them (D3, D4, D6); it records its corrections. An answer may come without the protocol
around it, as prose or as a bare value. `OwnActions` lets another strategy add actions that no tool
answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from taofold.core.content import ToolCall
from taofold.core.effects import (
    Act,
    Answer,
    Ask,
    Assess,
    Begin,
    Halt,
    HandOff,
    Lack,
    Outlook,
    Strategy,
    note,
)
from taofold.core.reply import is_cut
from taofold.core.rule_names import NO_ACTION
from taofold.core.rules import fingerprint
from taofold.core.text import times
from taofold.core.values import FINISH, Action, Message, Observation, Reply, Thought, Value
from taofold.parsing import (
    Call,
    Prose,
    Remark,
    Repair,
    Turn,
    Unparsed,
    has_marks,
    read_call,
    read_reply,
)
from taofold.parsing.decision import names_a_tool
from taofold.parsing.outcome import BESIDE, OPEN_END, REPEATED
from taofold.reasoning import compaction
from taofold.reasoning.conversation import BROKEN, REFUSED, Talk, withheld
from taofold.reasoning.demands import UNANSWERED, Demands
from taofold.reasoning.task import Task


def to_action(call: Call, whole: tuple[Repair, ...] = ()) -> Action:
    """Returns the call as an action with its repairs (D7).

    Args:
        call: The call.
        whole: The repairs of the reply; one that changed its content applies to each call.
    """
    kinds: dict[str, None] = {}
    guessed = False
    for repair in call.repairs:
        kinds[repair.kind] = None
        guessed = guessed or repair.content
    # Kinds in order of first appearance: the recorded order must not vary.
    for repair in whole:
        if repair.content:
            kinds[repair.kind] = None
            guessed = True
    return Action(
        call.tool, call.parameters, call.rationale, call.id, tuple(kinds), guessed, call.error
    )


_HALF_A_CALL = (
    "The reply names a tool and is no call that could be read. To call the tool, send the call "
    "alone; to answer with this data, call finish."
)
_EMPTY = "Your reply was empty. Send the answer."
_ONE_HAND_OFF = "not done: one reply can hand over once, and %s comes first"
PAUSES = 10
"""The most times a provider may pause one turn."""
GAVE_UP = "the agent says that it did not reach the goal"
"""The error for `finish` with `"success": false`: a reported failure is not a success."""


class Taken(Value, frozen=True):
    """A turn that can be acted on. `kept` is the valid part of the reply."""

    reply: Reply
    kept: str
    thought: Thought
    actions: tuple[Action, ...]
    answer: Any = None
    final: str = ""
    """"final_answer" or "no_tool_call" if the batch is the answer."""
    failed: str = ""
    """The model's reason for not reaching the goal, "" if it reports none."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """The broken rule of a reply that cannot be acted on, and the feedback for the model."""

    rule: str
    feedback: str


@dataclass(frozen=True, slots=True)
class _Refused:
    """A turn that could be acted on but that a strict run refuses for the rules it breaks."""

    lacks: tuple[Lack, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """No usable reply within the attempts. `last` is the last text of the model."""

    error: str
    last: str = ""

    def answer(self, task: Task, wrap_up: str, *, toolless: bool) -> Answer:
        """Returns the answer without a usable reply: in the last turn the limit is the reason, else
        an error.
        """
        if wrap_up and task.offers:
            return Answer(None, wrap_up, f"the last turn brought no answer: {self.error}")
        if toolless:
            return Answer(None, "loop_detected", f"a loop was detected, and then: {self.error}")
        return Answer(None, "error", self.error)


class _Attempts:
    """The attempts at one turn: ask the model, read its reply, check and correct it.

    A strict run asks once per turn for each rule about form (`_demanded`). The second time it
    accepts the reply and records the violation, so that weak models can continue.
    """

    def __init__(self, task: Task, talk: Talk, demands: Demands) -> None:
        self._task, self._talk = task, talk
        self._demands = demands
        self._demanded: set[str] = set()
        self.withdrawn = ""
        """The tools that the model still called in a turn without tools."""

    def run(self, outlook: Outlook) -> Strategy[Taken | Lost]:
        """Asks until a reply can be acted on, at most `Task.attempts` times."""
        toolless = bool(outlook.wrap_up) or outlook.toolless
        feedback = last = ""
        # At the limit of steps: the wrap-up, and one correction of it.
        attempts = (
            min(self._task.attempts, 2) if outlook.wrap_up == "max_steps" else self._task.attempts
        )
        left = attempts
        while left:
            left -= 1
            reply: Reply = yield from self._ask(toolless)
            if reply.finish == "overflow":
                if not (yield from _compact(self._talk, last=toolless)):
                    return Lost("the conversation does not fit the model's context window")
                # The overflow used up one attempt, so folding cannot repeat without end.
                continue
            if reply.finish in REFUSED:
                return Lost(withheld(reply), reply.text)
            last = reply.text
            read = yield from self._judged(reply, toolless)
            if isinstance(read, Taken):
                return read
            if isinstance(read, _Refused):
                # Each rule is demanded once, so these replies need no separate limit.
                left += 1
                self._demanded.update([lack.rule for lack in read.lacks])
                faults = [(lack.rule, lack.detail) for lack in read.lacks]
            else:
                faults = [(read.rule, read.feedback)]
            feedback = "\n".join([detail for _, detail in faults])
            for rule, detail in faults:
                yield from note("violation", rule=rule, detail=detail[:500], refused=True)
            self._talk.correct(reply, feedback)
        return Lost(f"no usable reply in {times(attempts, 'attempt')}: {feedback}", last)

    def _judged(self, reply: Reply, toolless: bool) -> Strategy[Taken | _Broken | _Refused]:
        """Reads the reply and applies the rules of the loop."""
        read = self._read(reply)
        if isinstance(read, _Broken):
            return read
        if isinstance(read, Taken):
            # A lenient run uses the text of the answer as its thought.
            unanswered = self._task.strict and not self._task.native
            return (yield from self._accepted(read, (UNANSWERED,) if unanswered else (), toolless))
        if read.role_violation:
            # The model wrote an observation itself. The parser cut it off, and this records the
            # violation.
            detail = read.role_violation[:500]
            yield from note("violation", rule="role_violation", detail=detail)
        return _unread(read) or (yield from self._check(reply, read, toolless))

    def _ask(self, toolless: bool) -> Strategy[Reply]:
        """Asks for a turn. A reply that its provider paused is continued, not read."""
        pauses = 0
        while True:
            reply: Reply = yield Ask(
                self._talk.conversation,
                tools=self._talk.offered(),
                schema=self._talk.form(toolless),
                allowed=self._talk.allowed(toolless),
                deferred=self._talk.deferred,
                search=self._task.search if self._talk.deferred else "",
            )
            if reply.found:
                self._talk.find(reply.found)
            pauses += 1
            if reply.finish != "pause" or pauses == PAUSES:
                return reply
            self._talk.conversation.append(Message("assistant", reply.content, reply.issuer))

    def _read(self, reply: Reply) -> Turn | Taken | _Broken:
        """Reads the reply without applying the rules of the loop."""
        if reply.finish in BROKEN:
            return _Broken(reply.finish, BROKEN[reply.finish])
        if not reply.calls and self._talk.plain:
            return self._read_plain(reply)
        if reply.calls:
            text = reply.text.strip()
            remark = Remark(text) if text else None
            why = reply.finish or None
            takes = self._task.schemas
            calls = tuple(
                [
                    read_call(
                        c.name, c.arguments, c.id, finish_reason=why, schema=takes.get(c.name)
                    )
                    for c in _sent(reply)
                ]
            )
            return Turn(remark, calls)

        if not reply.text.strip():
            return _Broken("empty", "Your reply was empty. Reply with a thought and an action.")
        # With schemas, not only names: they determine if `02134` is a number.
        read = read_reply(reply.text, self._task.signatures, finish_reason=reply.finish or None)
        if isinstance(read, Turn):
            return read
        if isinstance(read, Prose):
            return self._read_prose(reply, read.text)
        return self._read_bare_value(reply, read) or _Broken("unreadable", read.feedback)

    def _read_plain(self, reply: Reply) -> Taken | _Broken:
        """Returns the whole text of a reply as the answer."""
        if not reply.text.strip():
            return _Broken("empty", _EMPTY)
        accepted = self._task.output.read_reply(reply)
        if isinstance(accepted, Unparsed):
            return _Broken("output", accepted.feedback)
        if self._task.output.text:
            return _prose(reply, accepted.value, accepted.value, accepted.value)
        return self._answered(reply, "", accepted.value)

    def _read_prose(self, reply: Reply, text: str) -> Taken | _Broken:
        """Returns a reply without a call as the answer, if the task's type accepts it."""
        if not self._task.output.text:
            accepted = self._task.output.read(text)
            if isinstance(accepted, Unparsed):
                return _Broken("output", accepted.feedback)
            return self._answered(reply, text, accepted.value)
        if not text.strip():
            return _Broken("empty", "Your reply held no answer.")
        return _prose(reply, text, text, text)

    def _read_bare_value(self, reply: Reply, unread: Unparsed) -> Taken | _Broken | None:
        """Reads a typed answer without the protocol around it; None if there is none."""
        output = self._task.output
        # Text that was cut off, ambiguous or full of marks could be a partial call.
        if output.text or unread.reason not in ("no_candidate", "invalid") or has_marks(reply.text):
            return None
        accepted = output.read(reply.text, reply.finish or None)
        return None if isinstance(accepted, Unparsed) else self._answered(reply, "", accepted.value)

    def _answered(self, reply: Reply, text: str, value: Any) -> Taken | _Broken:
        if self._is_half_a_call(value):
            return _Broken("unreadable", _HALF_A_CALL)
        shown = self._task.output.shown(value)
        # The thought would repeat the masked text.
        return _prose(reply, text if shown == value else "", value, shown)

    def _is_half_a_call(self, answer: Any) -> bool:
        """Returns whether data outside the protocol names a tool in a key that its type lacks."""
        declared = (self._task.output.schema or {}).keys() & {"properties", "$ref", "$defs"}
        return not declared and names_a_tool(answer, self._task.signatures)

    def _accepted(
        self, taken: Taken, lacks: Sequence[Lack], toolless: bool
    ) -> Strategy[Taken | _Refused]:
        """Accepts a turn and records the rules it breaks, or refuses it if a rule is demanded."""
        # The last turn is not refused for its form: there may be no call left to ask again.
        demanding = self._task.strict and not toolless
        due = [lack for lack in lacks if demanding and lack.rule not in self._demanded]
        judged: Assess = yield Assess(tuple(due or lacks), bool(due))
        if judged.refused:
            return _Refused(judged.lacks)
        for lack in judged.lacks:
            yield from note("violation", rule=lack.rule, detail=lack.detail[:500])
        return taken

    def _check(
        self, reply: Reply, turn: Turn, toolless: bool
    ) -> Strategy[Taken | _Broken | _Refused]:
        """Applies the rules of the loop to a readable turn."""
        if not turn.calls:
            return _Broken(
                NO_ACTION, "A thought needs an action: reply again with a thought and an action."
            )

        others = [call for call in turn.calls if call.tool != FINISH]
        finish = next((call for call in turn.calls if call.tool == FINISH), None)
        if toolless:
            withdrawn = [call.tool for call in others if call.tool not in self._talk.kept]
            if withdrawn:
                self.withdrawn = ", ".join(dict.fromkeys(withdrawn))
                if finish is None:
                    return _Broken("tools_withdrawn", self._talk.withdrawn)
                detail = f"not run: {self.withdrawn}"
                yield from note("violation", rule="tools_withdrawn", detail=detail)
                others = []

        thought, lacks = self._demands.judge(turn, others)
        if finish is not None and not others:
            finished = self._finish(reply, thought, to_action(finish, turn.repairs))
            if isinstance(finished, _Broken):
                return finished
            return (yield from self._accepted(finished, lacks, toolless))
        # The answer was written before the results of the actions beside it were known.
        if finish is not None:
            yield from note(
                "violation", rule="finish_in_batch", detail="finish beside other actions; not taken"
            )

        actions = _doubts_marked([to_action(call, turn.repairs) for call in others], reply.finish)
        taken = Taken(reply, _without_invention(reply, turn), thought, actions)
        return (yield from self._accepted(taken, lacks, toolless))

    def _finish(self, reply: Reply, thought: Thought, finish: Action) -> Taken | _Broken:
        if finish.error:
            return _Broken("output", finish.error)
        read = self._task.output.read_finish(finish.parameters)
        if isinstance(read, Unparsed):
            return _Broken("output", f"The answer is not accepted: {read.feedback}")
        # The accepted value, not the model's text: the observation is the run's output.
        result = {"answer": self._task.output.shown(read.answer)} | (
            {"success": False} if read.gave_up else {}
        )
        beside = tuple([kind for kind in finish.repairs if kind == BESIDE.kind])
        action = Action(FINISH, result, finish.rationale, finish.id, beside)
        if read.gave_up and not self._task.output.text:
            why = read.answer if isinstance(read.answer, str) else thought.content
            return Taken(reply, reply.text, thought, (action,), None, "final_answer", why)
        failed = GAVE_UP if read.gave_up else ""
        return Taken(reply, reply.text, thought, (action,), read.answer, "final_answer", failed)


def _sent(reply: Reply) -> list[ToolCall]:
    """Returns the reply's native calls; duplicates under one id count once."""
    distinct: dict[object, ToolCall] = {}
    for index, call in enumerate(reply.calls):
        distinct.setdefault(call.identity if call.id else index, call)
    return list(distinct.values())


def _doubts_marked(actions: Sequence[Action], finish: str) -> tuple[Action, ...]:
    """Returns the actions, with repeated ones marked, and all of them if the reply has no end.

    A reply that ends at a limit, or is paused, may be only the first half of the intended actions.
    """
    endless = is_cut(finish) or finish == "pause"
    before: set[str] = set()
    marked: list[Action] = []
    for action in actions:
        identity = fingerprint(action) if len(actions) > 1 else ""
        doubts = [REPEATED.kind] if identity in before else []
        doubts += [OPEN_END.kind] if endless else []
        before.add(identity)
        # An unreadable call does not run in any case.
        if doubts and not action.error:
            repairs = tuple(dict.fromkeys([*action.repairs, *doubts]))
            action = replace(action, repairs=repairs, guessed=True)
        marked.append(action)
    return tuple(marked)


def _prose(reply: Reply, text: str, answer: Any, shown: Any) -> Taken:
    """Returns an answer given without the protocol, completed by a synthesized `finish`."""
    content = text.strip()[:300] or "The answer."
    thought = Thought(content, "synthesis", synthesized=True)
    finish = Action(FINISH, {"answer": shown})
    return Taken(reply, reply.text, thought, (finish,), answer, "no_tool_call")


def _unread(turn: Turn) -> _Broken | None:
    """Returns the error of an unreadable call: a batch runs completely or not at all."""
    if len(turn.calls) == 1:
        return None
    errors = [
        f"call {number} ({call.tool or 'without a name'}): {call.error}"
        for number, call in enumerate(turn.calls, 1)
        if call.error
    ]
    if not errors:
        return None
    faults = "; ".join(errors)
    return _Broken("unreadable", f"No call of the batch was run. {faults}. Send the batch again.")


def _without_invention(reply: Reply, turn: Turn) -> str:
    """Returns the reply without its invented part, so that the history never shows it."""
    cut = turn.role_violation
    if not cut:
        return reply.text
    # The beginning of the invented part is enough to locate it.
    at = reply.text.find(cut[:80])
    return reply.text[:at].rstrip() if at > 0 else reply.text


class OwnActions(Protocol):
    """Actions that the strategy answers itself: see `taofold.reasoning.strategy_actions`."""

    last: tuple[str, ...]
    """The actions that may also be called in the last turn."""

    @property
    def shortfall(self) -> str:
        """Why the goal is not reached yet, or ""."""
        ...

    def observed(self, actions: Sequence[Action]) -> Strategy[tuple[Observation | None, ...]]:
        """Yields effects; returns an observation for each of its own `actions`, else None."""
        ...

    def saw(self, actions: Sequence[Action], observations: Sequence[Observation]) -> None:
        """Records the results of a step."""
        ...

    def ending(self) -> Strategy[Answer | None]:
        """Returns the run's answer, if one of these actions has ended it."""
        ...


def react(task: Task, system: OwnActions | None = None) -> Strategy[Answer | HandOff]:
    """Runs turns until the model finishes, a limit is reached, or no reply can be read.

    `system` answers the strategy's own actions; without it there are none. A successful call of a
    tool that hands over to another agent ends the loop too.
    """
    talk = Talk(task, () if system is None else system.last)
    demands = Demands(task)
    forbidden = ""
    number = talk.steps
    try:
        while True:
            outlook: Outlook = yield Begin()
            if outlook.stop:
                return Answer(None, outlook.stop, "" if system is None else system.shortfall)
            if not outlook.wrap_up:  # the limit was raised in the meantime
                forbidden = ""
            # Before the turn is opened: new steering messages must not be folded away.
            if talk.crowded:
                calls = yield from _summarise(talk, last=bool(outlook.wrap_up))
                yield from _fold(talk)
                if calls:
                    # The call may have made this turn the last one.
                    later: Outlook = yield Begin()
                    outlook = replace(later, heard=(*outlook.heard, *later.heard))
                    if outlook.stop:
                        return Answer(
                            None, outlook.stop, "" if system is None else system.shortfall
                        )
            talk.open(outlook)
            attempts = _Attempts(task, talk, demands)
            taken = yield from attempts.run(outlook)
            if isinstance(taken, Lost):
                wrap_up = forbidden or outlook.wrap_up
                return taken.answer(task, wrap_up, toolless=outlook.toolless)
            if taken.final:
                yield from _close(taken)
                stop = "loop_detected" if outlook.toolless else taken.final
                # An answer in the last turn counts. The limit is the stop reason only if it forbade
                # a call that the model requested, or if the goal was not reached.
                if outlook.wrap_up and task.offers:
                    needed = forbidden or attempts.withdrawn or taken.failed
                    stop = (forbidden or outlook.wrap_up) if needed else taken.final
                return Answer(taken.answer, stop, taken.failed)
            number += 1
            local = (
                _surplus(task, taken.actions)
                if system is None
                else (yield from system.observed(taken.actions))
            )
            observations: tuple[Observation, ...] = yield Act(taken.thought, taken.actions, local)
            if system is not None:
                system.saw(taken.actions, observations)
                ended = yield from system.ending()
                if ended is not None:
                    return ended
            if any([observation.refused == "limit" for observation in observations]):
                forbidden = "max_tool_calls"
            demands.saw(observations)
            talk.tell(number, taken.reply, taken.kept, taken.actions, observations)
            hand_off = _handed(talk, taken.actions, observations)
            if hand_off is not None:
                return hand_off
    except Halt as halt:
        return Answer(None, halt.reason)


def _surplus(task: Task, actions: Sequence[Action]) -> tuple[Observation | None, ...]:
    """Returns refusals of all hand-offs of a batch but the first, None for its other calls."""
    calls = [index for index, action in enumerate(actions) if action.tool in task.successors]
    if len(calls) < 2:
        return ()
    refused = Observation(_ONE_HAND_OFF % actions[calls[0]].tool, "failure", refused="repeated")
    return tuple([refused if index in calls[1:] else None for index in range(len(actions))])


def _handed(
    talk: Talk, actions: Sequence[Action], observations: Sequence[Observation]
) -> HandOff | None:
    """Returns the hand-off that a step has made, or None."""
    for action, observation in zip(actions, observations, strict=True):
        agent = talk.task.successors.get(action.tool)
        if agent is not None and observation.status == "success":
            reason = action.parameters.get("reason")
            return HandOff(agent, reason if isinstance(reason, str) else "", talk)
    return None


def _compact(talk: Talk, *, last: bool) -> Strategy[bool]:
    """Shortens older steps and records it; returns False if nothing is left to shorten."""
    yield from _summarise(talk, last=last)
    return (yield from _fold(talk))


def _summarise(talk: Talk, *, last: bool) -> Strategy[bool]:
    """Asks the compactor for a summary of older steps; returns whether it was asked.

    A last turn keeps its call for the answer. If there is no summary, the steps are folded.
    """
    task = talk.task
    steps = talk.to_summarise() if task.compaction == "summary" and not last else []
    if not steps:
        return False
    request = compaction.request(task.goal, talk.summary, steps, task.budget)
    reply: Reply = yield request
    # A hook's message stays for the run, also if it came before this call.
    talk.adopt(request.conversation)
    summary, reason = compaction.read_summary(reply, task.budget)
    talk.summarise(summary)
    if reason:
        yield from note(compaction.FAILED, reason=reason)
    return True


def _fold(talk: Talk) -> Strategy[bool]:
    """Replaces older steps and records it; returns False if nothing is left to replace."""
    folded = talk.compact()
    if folded is None:
        return False
    upto, before, after = folded
    yield from note("compacted", upto=upto, chars_before=before, chars_after=after)
    return True


def _close(taken: Taken) -> Strategy[None]:
    """Yields the last triplet: `finish`, whose observation is the accepted output (R2)."""
    shown = None if taken.answer is None else taken.actions[0].parameters["answer"]
    observation = Observation(shown, extraction="answer accepted", auto=True)
    yield Act(taken.thought, taken.actions, (observation,))
