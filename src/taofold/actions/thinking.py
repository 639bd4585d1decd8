"""How an action runs a strategy: on a task of its own, watched, in a branch of its own."""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from taofold.actions.kind import Call, Done
from taofold.actions.types import NoType, type_of
from taofold.actions.watch import Rules, Trace, watched
from taofold.core.effects import Answer, Strategy
from taofold.core.values import ModelSettings
from taofold.reasoning import Offer, Output, Task
from taofold.reasoning.nested import Inner, alone

STEP_KEYS: Final = frozenset({"thought", "action", "action_input", "observation", "final_answer"})
"""An `output_format` with these types the steps; only its `final_answer` types the answer."""


class Unusable(ValueError):
    """A key says something that cannot be done; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a strategy inside an action ended."""

    output: Any
    error: str
    stop: str
    trace: Trace

    def done(self, value: Any, **state: Any) -> Done:
        """As the end of the action: the variables are set on success and on failure."""
        return Done(value, self.error, self.stop, {**state, "reasoning_answer": self.output})


def output_of(written: Any) -> Output:
    """The type of the answer that `output_format` asks for."""
    if written is None:
        return Output()
    if isinstance(written, Mapping) and "final_answer" in written and set(written) <= STEP_KEYS:
        written = written["final_answer"]
    try:
        return Output(type_of(written))
    except NoType as error:
        where = f" at {'.'.join(error.path)}" if error.path else ""
        raise Unusable(f"output_format{where}: {error}") from None


def offered(task: Task, names: list[str] | None) -> tuple[Offer, ...]:
    """The run's tools of these names; all, if nothing is said."""
    if names is None:
        return task.offers
    known = {offer.name: offer for offer in task.offers}
    missing = [name for name in names if plain(name) not in known]
    if missing:
        raise Unusable(f"tools: there is no {missing[0]!r}; there are {', '.join(known) or 'none'}")
    return tuple(known[name] for name in dict.fromkeys(map(plain, names)))


def plain(name: str) -> str:
    """The tool's own name: `tool.` before it says only that it is one."""
    return name.removeprefix("tool.")


def roles(call: Call[Any], **keys: str) -> dict[str, str]:
    """From roles to the run's models, by the keys that name them."""
    return {role: call.models[key] for role, key in keys.items() if key in call.models}


def think(
    inner: Inner,
    call: Call[Any],
    name: str,
    goal: str,
    *,
    models: Mapping[str, str],
    output: Output | None = None,
    offers: tuple[Offer, ...] = (),
    instructions: str = "",
    steps: int | None = None,
    settings: ModelSettings = ModelSettings(),
) -> Strategy[Ended]:
    """Run `inner` on `goal`."""
    base = call.task
    own_words = "\n\n".join([part for part in (base.instructions, instructions) if part])
    task = replace(
        base,
        goal=goal,
        instructions=own_words,
        offers=offers,
        output=output or Output(),
        native=base.native and bool(offers) and not models,
        ask_user=False,
        data={},
    )
    trace = Trace()
    allowed = frozenset([offer.name for offer in offers])
    rules = Rules(models, settings, call.seconds, allowed, steps)

    def inside(task: Task) -> Strategy[Answer]:
        answer: Any = yield from watched(inner(task), rules, trace)
        if isinstance(answer, Answer) and answer.stop == "error" and not answer.error:
            failures = trace.failures[-1:] or ["the strategy gave up"]
            return Answer(answer.output, "error", f"the model could not be asked: {failures[0]}")
        return answer if isinstance(answer, Answer) else Answer(answer)

    solved = yield from alone(inside, task, name, node=call.node)
    answer = solved.answer
    if solved.good:
        return Ended(answer.output, "", "", trace)
    trace.failed(name, solved.error)
    # What a node's own bound stopped is the node's failure, not the end of the run.
    if solved.limit and not (steps is not None and solved.limit == "max_steps"):
        return Ended(answer.output, "", solved.limit, trace)
    said = solved.error
    if solved.limit and solved.limit not in said:
        said = f"{solved.limit}: {said}"
    return Ended(answer.output, said, "", trace)
