"""ReAct: think, act, observe, until the answer is there (Yao et al., 2022).

A pure generator: limits, policy, tools and repetition are the runtime's; it hears of
them as an `Outlook`. `take_turn` is the one place that retries unreadable replies and enforces
the rules of the loop on them (D3, D4, D6). What it corrects, it records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from taofold.core.effects import Act, Answer, Ask, Begin, Halt, Outlook, Strategy, note
from taofold.core.rules import check_thought
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
from taofold.reasoning.conversation import REFUSED, Talk, withheld
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
    for repair in whole:
        if repair.content:
            kinds[repair.kind] = None
            guessed = True
    return Action(
        call.tool, call.parameters, call.rationale, call.id, tuple(kinds), guessed, call.error
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
class Broken:
    """Why a reply cannot be acted on: the rule, and what to tell the model."""

    rule: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Lost:
    """No usable reply within the attempts. `said` is the last thing the model wrote."""

    error: str
    said: str = ""


def take_turn(
    task: Task, talk: Talk, outlook: Outlook, *, after_failure: bool
) -> Strategy[Taken | Lost]:
    """Ask until a reply can be acted on, at most `task.attempts` times."""
    toolless = bool(outlook.wrap_up) or outlook.toolless
    corrected: set[str] = set()
    broken = Broken("", "")
    said = ""
    # At the limit of steps: the wrap-up, and one more word if that was none.
    attempts = min(task.attempts, 2) if outlook.wrap_up == "max_steps" else task.attempts
    for _ in range(attempts):
        reply: Reply = yield from _ask(talk, toolless)
        if reply.finish == "overflow":
            folded = talk.compact()
            if folded is None:
                return Lost("the conversation does not fit the model's context window")
            upto, before, after = folded
            yield from note("compacted", upto=upto, chars_before=before, chars_after=after)
            continue
        if reply.finish in REFUSED and not reply.calls:
            return Lost(withheld(reply), reply.text)
        said = reply.text
        read = read_turn(task, reply)
        if isinstance(read, Taken):
            read, cut = read, ""
        elif isinstance(read, Turn):
            cut = read.role_violation
            if cut:
                yield from note("violation", rule="role_violation", detail=cut[:500])
            unread = _unread(read)
            if unread is None:
                read = yield from _check(task, reply, read, toolless, after_failure, corrected)
            else:
                read = unread
        if isinstance(read, Taken):
            return read
        broken = read
        corrected.add(broken.rule)
        yield from note("violation", rule=broken.rule, detail=broken.feedback[:500])
        talk.correct(reply, broken.feedback)
    return Lost(f"no usable reply in {attempts} attempts: {broken.feedback}", said)


def _ask(talk: Talk, toolless: bool) -> Strategy[Reply]:
    """Ask for a turn. A reply that its provider interrupted is carried on, not read."""
    pauses = 0
    while True:
        reply: Reply = yield Ask(
            talk.conversation,
            tools=talk.offered(),
            schema=talk.form(toolless),
            allowed=talk.allowed(toolless),
        )
        pauses += 1
        if reply.finish != "pause" or pauses == PAUSES:
            return reply
        talk.conversation.append(Message("assistant", reply.content, reply.issuer))


def read_turn(task: Task, reply: Reply) -> Turn | Taken | Broken:
    """What the reply says, before the rules of the loop are applied."""
    if reply.calls:
        text = reply.text.strip()
        remark = Remark(text) if text else None
        why = reply.finish or None
        takes = task.schemas
        calls = tuple(
            [
                read_call(c.name, c.arguments, c.id, finish_reason=why, schema=takes.get(c.name))
                for c in reply.calls
            ]
        )
        return Turn(remark, calls)
    if reply.finish == "malformed":
        return Broken("malformed", "Your tool call could not be read. Call the tool again.")
    if not reply.text.strip():
        return Broken("empty", "Your reply was empty. Reply with a thought and an action.")
    read = read_reply(reply.text, task.signatures, finish_reason=reply.finish or None)
    if isinstance(read, Turn):
        return read
    if isinstance(read, Prose):
        if task.output.text:
            return (
                _prose(reply, read.text, read.text)
                if read.text.strip()
                else Broken("empty", "Your reply held no answer.")
            )
        accepted = task.output.accept(read.text)
        if isinstance(accepted, Unparsed):
            return Broken("output", accepted.feedback)
        return _prose(reply, read.text, accepted.value)
    answers = read.reason in ("no_candidate", "invalid") and not has_marks(reply.text)
    if answers and not task.output.text:
        parsed = parse(reply.text, task.output.type, finish_reason=reply.finish or None)
        if not isinstance(parsed, Unparsed):
            accepted = task.output.accept(reply.text)
            if not isinstance(accepted, Unparsed):
                return _prose(reply, "", accepted.value)
    return Broken("unreadable", read.feedback)


def _prose(reply: Reply, text: str, answer: Any) -> Taken:
    """An answer given without the protocol: the triplet is closed with a `finish` of ours."""
    content = text.strip()[:300] or "The answer."
    thought = Thought(content, "synthesis", synthesized=True)
    finish = Action(FINISH, {"answer": answer})
    return Taken(reply, reply.text, thought, (finish,), answer, "no_tool_call")


def _check(
    task: Task, reply: Reply, turn: Turn, toolless: bool, after_failure: bool, corrected: set[str]
) -> Strategy[Taken | Broken]:
    """Apply the rules of the loop to a readable turn."""
    if not turn.calls:
        return Broken("R2", "A thought needs an action: reply again with a thought and an action.")
    thought = _unsaid(task, turn)
    if thought is None:
        thought = yield from _thought(task, turn, after_failure, corrected)
    if isinstance(thought, Broken):
        return thought
    others = [call for call in turn.calls if call.tool != FINISH]
    finish = None
    if len(others) < len(turn.calls):
        finish = next(call for call in turn.calls if call.tool == FINISH)
    if toolless and finish is None:
        return Broken(
            "tools_withdrawn", 'No tool can be used any more: answer with "tool": "finish".'
        )
    if finish is not None and (toolless or not others):
        return _finish(task, reply, thought, finish)
    if finish is not None:
        yield from note(
            "violation", rule="finish_in_batch", detail="finish beside other actions; not taken"
        )
    for call in others if not task.native else ():
        if not call.rationale:
            yield from note("violation", rule="missing_rationale", detail=call.tool)
    actions = tuple([to_action(call, turn.repairs) for call in others])
    return Taken(reply, _kept(reply, turn), thought, actions)


def _unread(turn: Turn) -> Broken | None:
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
    told = "; ".join(errors)
    return Broken("unreadable", f"No call of the batch was run. {told}. Send the batch again.")


def _finish(task: Task, reply: Reply, thought: Thought, finish: Call) -> Taken | Broken:
    if finish.error:
        return Broken("output", finish.error)
    parameters = {name: said for name, said in finish.parameters.items() if name != "success"}
    answer = parameters.get("answer", parameters or None)
    gave_up = finish.parameters.get("success") is False
    if gave_up and not task.output.text:
        why = answer if isinstance(answer, str) else thought.content
        action = Action(FINISH, {"answer": answer, "success": False}, finish.rationale, finish.id)
        return Taken(reply, reply.text, thought, (action,), None, "final_answer", why)
    if answer is None and not task.output.text:
        accepted = task.output.accept("null")
    else:
        accepted = task.output.accept(answer if answer is not None else "")
    if isinstance(accepted, Unparsed):
        return Broken("output", f"The answer is not accepted: {accepted.feedback}")
    said = {"answer": accepted.value} | ({"success": False} if gave_up else {})
    action = Action(FINISH, said, finish.rationale, finish.id)
    failed = GAVE_UP if gave_up else ""
    return Taken(reply, reply.text, thought, (action,), accepted.value, "final_answer", failed)


def _unsaid(task: Task, turn: Turn) -> Thought | Broken | None:
    """What stands for a thought that was not given; None if there is one."""
    if turn.remark is not None and turn.remark.content.strip():
        return None
    if task.strict:
        return Broken("R1", "No action without a thought: say why you act, then act.")
    tools = ", ".join([call.tool for call in turn.calls])
    return Thought(f"(no thought given) calls {tools}", "reasoning", synthesized=True)


def _thought(
    task: Task, turn: Turn, after_failure: bool, corrected: set[str]
) -> Strategy[Thought | Broken]:
    """The turn's thought, typed; or what is wrong with it."""
    remark = turn.remark
    assert remark is not None
    kind, problem = check_thought(remark.type, research=task.research)
    if task.native and remark.type is None:
        kind, problem = ("exception" if after_failure else "reasoning"), ""
    if problem:
        if task.strict and "thought_type" not in corrected:
            return Broken("thought_type", problem)
        yield from note("violation", rule="thought_type", detail=problem)
    if after_failure and kind != "exception":
        feedback = (
            "The last action failed. The next thought must be of type exception: "
            "say why it failed and what you will change."
        )
        if task.strict and "exception" not in corrected:
            return Broken("exception", feedback)
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


def _kept(reply: Reply, turn: Turn) -> str:
    """The reply without what it invented, so that the history never shows it."""
    cut = turn.role_violation
    if not cut:
        return reply.text
    place = reply.text.find(cut[:80])
    return reply.text[:place].rstrip() if place > 0 else reply.text


VERSION = 1


class OwnActions(Protocol):
    """Actions that the strategy answers itself: see `taofold.reasoning.system`."""

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
    try:
        while True:
            outlook: Outlook = yield Begin()
            if outlook.stop:
                return Answer(None, outlook.stop)
            if talk.crowded:
                folded = talk.compact()
                if folded is not None:
                    upto, before, after = folded
                    yield from note("compacted", upto=upto, chars_before=before, chars_after=after)
            talk.open(outlook)
            taken = yield from take_turn(task, talk, outlook, after_failure=failed)
            if isinstance(taken, Lost):
                wrap_up = outlook.wrap_up
                if wrap_up == "max_tool_calls":
                    # The attempts may have reached the limit of model calls, which then ends it.
                    left: Outlook = yield Begin()
                    wrap_up = left.stop or wrap_up
                return _lost(task, taken, wrap_up, outlook.toolless)
            if taken.final:
                yield from _close(taken)
                stop = "loop_detected" if outlook.toolless else taken.final
                if outlook.wrap_up and task.offers:
                    stop = outlook.wrap_up
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


def _close(taken: Taken) -> Strategy[None]:
    """The last triplet: `finish`, whose observation is the accepted output (R2)."""
    observation = Observation(taken.answer, extraction="answer accepted", auto=True)
    yield Act(taken.thought, taken.actions, (observation,))


def _lost(task: Task, lost: Lost, wrap_up: str, toolless: bool) -> Answer:
    """No usable reply: at a limit that is the limit's doing, else an error."""
    if wrap_up and task.offers:
        return Answer(None, wrap_up, f"the limit was reached, and then: {lost.error}")
    if toolless:
        return Answer(None, "loop_detected", f"a loop was detected, and then: {lost.error}")
    return Answer(None, "error", lost.error)
