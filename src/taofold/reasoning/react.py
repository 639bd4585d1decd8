"""ReAct: think, act, observe, until the answer is there (Yao et al., 2022).

A pure generator: limits, policy, tools and repetition are the runtime's; it hears of them as an
`Outlook`. `_Attempts` is the one place that reads replies, retries unreadable ones and enforces the
rules of the loop on them (D3, D4, D6); what it corrects, it records. An answer may come without the
protocol around it, as prose or as a bare value. `OwnActions` is how another strategy adds actions
that no tool answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from taofold.core.content import ToolCall
from taofold.core.effects import Act, Answer, Ask, Begin, Halt, Outlook, Strategy, note
from taofold.core.reply import is_cut
from taofold.core.rules import check_thought, fingerprint
from taofold.core.values import FINISH, Action, Message, Observation, Reply, Thought, Value
from taofold.parsing import (
    Call,
    Prose,
    Remark,
    Repair,
    Turn,
    Unparsed,
    has_marks,
    parse,
    read_call,
    read_reply,
)
from taofold.parsing.decision import names_a_tool
from taofold.parsing.outcome import OPEN_END, REPEATED
from taofold.reasoning.conversation import BROKEN, REFUSED, Talk, withheld
from taofold.reasoning.task import Task


def to_action(call: Call, whole: tuple[Repair, ...] = ()) -> Action:
    """The call as an action; its repairs come along (D7).

    `whole` is what was changed to read the reply: what may have changed a call changed each.
    """
    kinds: dict[str, None] = {}
    guessed = False
    for repair in call.repairs:
        kinds[repair.kind] = None
        guessed = guessed or repair.content
    # Kinds in the order of their first appearance: what is recorded must not vary.
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
PAUSES = 10
"""How often one turn may be interrupted by its provider."""
GAVE_UP = "the agent says that it did not reach the goal"
"""`finish` with `"success": false`: an honest end is no success."""


class Taken(Value, frozen=True):
    """A turn that can be acted on. `kept` is the reply as far as it counts."""

    reply: Reply
    kept: str
    thought: Thought
    actions: tuple[Action, ...]
    answer: Any = None
    final: str = ""
    """"final_answer" or "no_tool_call" if the batch is the answer."""
    failed: str = ""
    """Why the model says that the goal was not reached, "" if it does not say so."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """Why a reply cannot be acted on: the rule, and what to tell the model."""

    rule: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Lost:
    """No usable reply within the attempts. `last` is what the model wrote last."""

    error: str
    last: str = ""

    def answer(self, task: Task, wrap_up: str, *, toolless: bool) -> Answer:
        """No usable reply: at a limit that is the limit's doing, else an error."""
        if wrap_up and task.offers:
            return Answer(None, wrap_up, f"the limit was reached, and then: {self.error}")
        if toolless:
            return Answer(None, "loop_detected", f"a loop was detected, and then: {self.error}")
        return Answer(None, "error", self.error)


class _Attempts:
    """The attempts at one turn: the model is asked, its reply read, checked and corrected.

    A rule that may be broken once per turn is noted in `_corrected`: the second time it is only
    recorded, so that a model which cannot keep it still gets on. `excused` outlives the turn: who
    was asked for the type of a thought and wrote none again writes none, and another request in
    every turn would double the run's calls.
    """

    def __init__(self, task: Task, talk: Talk, excused: set[str], *, after_failure: bool) -> None:
        self._task, self._talk = task, talk
        self._excused = excused
        self._after_failure = after_failure
        self._corrected: set[str] = set()
        self.number = 0
        """How many were needed."""

    def run(self, outlook: Outlook) -> Strategy[Taken | Lost]:
        """Ask until a reply can be acted on, at most `Task.attempts` times."""
        toolless = bool(outlook.wrap_up) or outlook.toolless
        feedback = last = ""
        # At the limit of steps: the wrap-up, and one more word if that was none.
        attempts = (
            min(self._task.attempts, 2) if outlook.wrap_up == "max_steps" else self._task.attempts
        )
        for self.number in range(1, attempts + 1):
            reply: Reply = yield from self._ask(toolless)
            if reply.finish == "overflow":
                if not (yield from _compact(self._talk)):
                    return Lost("the conversation does not fit the model's context window")
                # The overflow used up one attempt: folding without end is impossible.
                continue
            if reply.finish in REFUSED:
                return Lost(withheld(reply), reply.text)
            last = reply.text
            read = self._read(reply)
            if isinstance(read, Turn):
                if read.role_violation:
                    # The model wrote an observation itself; the parser cut
                    # there, and this records it.
                    detail = read.role_violation[:500]
                    yield from note("violation", rule="role_violation", detail=detail)
                read = _unread(read) or (yield from self._check(reply, read, toolless))
            if isinstance(read, Taken):
                return read
            # Added before the next attempt is checked: a rule is insisted on once a turn.
            self._corrected.add(read.rule)
            feedback = read.feedback
            yield from note("violation", rule=read.rule, detail=feedback[:500])
            self._talk.correct(reply, feedback)
        return Lost(f"no usable reply in {attempts} attempts: {feedback}", last)

    def _ask(self, toolless: bool) -> Strategy[Reply]:
        """Ask for a turn. A reply that its provider interrupted is carried on, not read."""
        pauses = 0
        while True:
            reply: Reply = yield Ask(
                self._talk.conversation,
                tools=self._talk.offered(),
                schema=self._talk.form(toolless),
                allowed=self._talk.allowed(toolless),
            )
            pauses += 1
            if reply.finish != "pause" or pauses == PAUSES:
                return reply
            self._talk.conversation.append(Message("assistant", reply.content, reply.issuer))

    def _read(self, reply: Reply) -> Turn | Taken | _Broken:
        """What the reply says, before the rules of the loop are applied."""
        if reply.finish in BROKEN:
            return _Broken(reply.finish, BROKEN[reply.finish])
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
        # With the schemas, not the names: they say whether `02134` is a number.
        read = read_reply(reply.text, self._task.signatures, finish_reason=reply.finish or None)
        if isinstance(read, Turn):
            return read
        if isinstance(read, Prose):
            return self._read_prose(reply, read.text)
        return self._read_bare_value(reply, read) or _Broken("unreadable", read.feedback)

    def _read_prose(self, reply: Reply, text: str) -> Taken | _Broken:
        """A reply without a call: the answer, if the task's type takes it."""
        if not self._task.output.text:
            accepted = self._task.output.accept(text)
            if isinstance(accepted, Unparsed):
                return _Broken("output", accepted.feedback)
            return self._answered(reply, text, accepted.value)
        if not text.strip():
            return _Broken("empty", "Your reply held no answer.")
        return _prose(reply, text, text)

    def _read_bare_value(self, reply: Reply, unread: Unparsed) -> Taken | _Broken | None:
        """A typed answer may come without the protocol around it; None if there is none."""
        output = self._task.output
        # What was cut off, ambiguous or full of marks is none: it could be half a call.
        if output.text or unread.reason not in ("no_candidate", "invalid") or has_marks(reply.text):
            return None
        if isinstance(parse(reply.text, output.type, finish_reason=reply.finish or None), Unparsed):
            return None
        accepted = output.accept(reply.text)
        return None if isinstance(accepted, Unparsed) else self._answered(reply, "", accepted.value)

    def _answered(self, reply: Reply, text: str, value: Any) -> Taken | _Broken:
        if self._is_half_a_call(value):
            return _Broken("unreadable", _HALF_A_CALL)
        return _prose(reply, text, value)

    def _is_half_a_call(self, answer: Any) -> bool:
        """Whether data outside the protocol names a tool, and its type does not know that key."""
        declared = (self._task.output.schema or {}).keys() & {"properties", "$ref", "$defs"}
        return not declared and names_a_tool(answer, self._task.signatures)

    def _check(self, reply: Reply, turn: Turn, toolless: bool) -> Strategy[Taken | _Broken]:
        """Apply the rules of the loop to a readable turn."""
        if not turn.calls:
            return _Broken(
                "R2", "A thought needs an action: reply again with a thought and an action."
            )

        thought = self._unsaid(turn)
        if thought is None:
            thought = yield from self._thought(turn)
        if isinstance(thought, _Broken):
            return thought
        others = [call for call in turn.calls if call.tool != FINISH]
        finish = next((call for call in turn.calls if call.tool == FINISH), None)
        if toolless and finish is None:
            return _Broken(
                "tools_withdrawn", 'No tool can be used any more: answer with "tool": "finish".'
            )

        if finish is not None and (toolless or not others):
            return self._finish(reply, thought, finish)
        # The answer was written before the results of the actions beside it were seen.
        if finish is not None:
            yield from note(
                "violation", rule="finish_in_batch", detail="finish beside other actions; not taken"
            )

        # A native call has no field for a rationale.
        for call in others if not self._task.native else ():
            if not call.rationale:
                yield from note("violation", rule="missing_rationale", detail=call.tool)
        actions = [to_action(call, turn.repairs) for call in others]
        return Taken(
            reply, _without_invention(reply, turn), thought, _doubts_marked(actions, reply.finish)
        )

    def _finish(self, reply: Reply, thought: Thought, finish: Call) -> Taken | _Broken:
        if finish.error:
            return _Broken("output", finish.error)
        parameters = {name: value for name, value in finish.parameters.items() if name != "success"}
        # Models often give the answer's fields as the parameters themselves.
        answer = parameters.get("answer", parameters or None)
        gave_up = finish.parameters.get("success") is False

        # The words that say why need not be of the answer's type.
        if gave_up and not self._task.output.text:
            why = answer if isinstance(answer, str) else thought.content
            action = Action(
                FINISH, {"answer": answer, "success": False}, finish.rationale, finish.id
            )
            return Taken(reply, reply.text, thought, (action,), None, "final_answer", why)

        if answer is None:
            answer = "" if self._task.output.text else "null"
        accepted = self._task.output.accept(answer)
        if isinstance(accepted, Unparsed):
            return _Broken("output", f"The answer is not accepted: {accepted.feedback}")
        # The accepted value, not what the model wrote: the observation is the run's output.
        result = {"answer": accepted.value} | ({"success": False} if gave_up else {})
        action = Action(FINISH, result, finish.rationale, finish.id)
        failed = GAVE_UP if gave_up else ""
        return Taken(reply, reply.text, thought, (action,), accepted.value, "final_answer", failed)

    def _unsaid(self, turn: Turn) -> Thought | _Broken | None:
        """What stands for a thought that was not given; None if there is one."""
        if turn.remark is not None and turn.remark.content.strip():
            return None
        if self._task.strict:
            return _Broken("R1", "No action without a thought: say why you act, then act.")
        tools = ", ".join([call.tool for call in turn.calls])
        return Thought(f"(no thought given) calls {tools}", "reasoning", synthesized=True)

    def _thought(self, turn: Turn) -> Strategy[Thought | _Broken]:
        """The turn's thought, typed; or what is wrong with it."""
        remark = turn.remark
        assert remark is not None
        kind, problem = check_thought(remark.type, research=self._task.research)
        # Native replies carry no type: it is derived from what happened.
        if self._task.native and remark.type is None:
            kind, problem = ("exception" if self._after_failure else "reasoning"), ""
        if problem:
            # Insisted on once; a model that cannot do it would otherwise never get on.
            if self._insists("thought_type"):
                return _Broken("thought_type", problem)
            if self._task.excuses:
                self._excused.add("thought_type")
            yield from note("violation", rule="thought_type", detail=problem)

        if self._after_failure and kind != "exception":
            feedback = (
                "The last action failed. The next thought must be of type exception: "
                "say why it failed and what you will change."
            )
            if "thought_type" not in self._excused and self._insists("exception"):
                return _Broken("exception", feedback)
            detail = "no exception thought after a failure"
            yield from note("violation", rule="exception", detail=detail)

        return Thought(
            remark.content,
            kind or "reasoning",
            because=remark.because,
            confidence=remark.confidence,
            critical=remark.critical,
            synthesized=kind is None,
        )

    def _insists(self, rule: str) -> bool:
        return self._task.strict and rule not in self._corrected and rule not in self._excused


def _sent(reply: Reply) -> list[ToolCall]:
    """The reply's native calls; the same call under the same id was sent twice and is one."""
    distinct: dict[object, ToolCall] = {}
    for index, call in enumerate(reply.calls):
        distinct.setdefault(call.identity if call.id else index, call)
    return list(distinct.values())


def _doubts_marked(actions: Sequence[Action], finish: str) -> tuple[Action, ...]:
    """The actions; marked are those that equal an earlier one, and all of a reply without an end.

    What ends at a limit, or goes on, may be the first half of what the model wanted done.
    """
    endless = is_cut(finish) or finish == "pause"
    before: set[str] = set()
    marked: list[Action] = []
    for action in actions:
        identity = fingerprint(action) if len(actions) > 1 else ""
        doubts = [REPEATED.kind] if identity in before else []
        doubts += [OPEN_END.kind] if endless else []
        before.add(identity)
        # What could not be read does not run in any case.
        if doubts and not action.error:
            repairs = tuple(dict.fromkeys([*action.repairs, *doubts]))
            action = replace(action, repairs=repairs, guessed=True)
        marked.append(action)
    return tuple(marked)


def _prose(reply: Reply, text: str, answer: Any) -> Taken:
    """An answer given without the protocol: the triplet is closed with a `finish` of ours."""
    content = text.strip()[:300] or "The answer."
    thought = Thought(content, "synthesis", synthesized=True)
    finish = Action(FINISH, {"answer": answer})
    return Taken(reply, reply.text, thought, (finish,), answer, "no_tool_call")


def _unread(turn: Turn) -> _Broken | None:
    """A batch runs as a whole or not at all: what is wrong if one of its calls was not read."""
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
    """The reply without what it invented, so that the history never shows it."""
    cut = turn.role_violation
    if not cut:
        return reply.text
    # The beginning of the invented part is enough to find where it starts.
    at = reply.text.find(cut[:80])
    return reply.text[:at].rstrip() if at > 0 else reply.text


class OwnActions(Protocol):
    """Actions that the strategy answers itself: see `taofold.reasoning.strategy_actions`."""

    def observed(self, actions: Sequence[Action]) -> Strategy[tuple[Observation | None, ...]]:
        """The observations of those of `actions` that are its own, else None."""
        ...

    def saw(self, actions: Sequence[Action], observations: Sequence[Observation]) -> None:
        """Hear what came back from a step."""
        ...

    def ending(self) -> Strategy[Answer | None]:
        """The run's answer, if one of these actions has ended it."""
        ...


def react(task: Task, system: OwnActions | None = None) -> Strategy[Answer]:
    """Turn after turn until the model finishes, a limit is reached, or no reply can be read.

    `system` answers actions of the strategy's own; without it there are none.
    """
    talk = Talk(task)
    failed = False
    number = 0
    excused: set[str] = set()
    try:
        while True:
            outlook: Outlook = yield Begin()
            if outlook.stop:
                return Answer(None, outlook.stop)
            # Before the turn is opened: what people say now must not be folded away.
            if talk.crowded:
                yield from _compact(talk)
            talk.open(outlook)
            attempts = _Attempts(task, talk, excused, after_failure=failed)
            taken = yield from attempts.run(outlook)
            if isinstance(taken, Lost):
                wrap_up = yield from _limit(outlook)
                return taken.answer(task, wrap_up, toolless=outlook.toolless)
            if taken.final:
                yield from _close(taken)
                stop = "loop_detected" if outlook.toolless else taken.final
                if outlook.wrap_up and task.offers:
                    # At its first attempt it did as it was told: no other limit had a part in it.
                    stop = (yield from _limit(outlook)) if attempts.number > 1 else outlook.wrap_up
                return Answer(taken.answer, stop, taken.failed)
            number += 1
            local = () if system is None else (yield from system.observed(taken.actions))
            observations: tuple[Observation, ...] = yield Act(taken.thought, taken.actions, local)
            if system is not None:
                system.saw(taken.actions, observations)
                ended = yield from system.ending()
                if ended is not None:
                    return ended
            failed = any([o.status in ("failure", "timeout") for o in observations])
            talk.tell(number, taken.reply, taken.kept, taken.actions, observations)
    except Halt as halt:
        return Answer(None, halt.reason)


def _compact(talk: Talk) -> Strategy[bool]:
    """Fold older observations, on record; False if nothing is left to fold."""
    folded = talk.compact()
    if folded is None:
        return False
    upto, before, after = folded
    yield from note("compacted", upto=upto, chars_before=before, chars_after=after)
    return True


def _limit(outlook: Outlook) -> Strategy[str]:
    """The limit that ended the run: attempts to wrap up may have reached that of model calls."""
    if outlook.wrap_up != "max_tool_calls":
        return outlook.wrap_up
    left: Outlook = yield Begin()
    return left.stop or outlook.wrap_up


def _close(taken: Taken) -> Strategy[None]:
    """The last triplet: `finish`, whose observation is the accepted output (R2)."""
    observation = Observation(taken.answer, extraction="answer accepted", auto=True)
    yield Act(taken.thought, taken.actions, (observation,))
