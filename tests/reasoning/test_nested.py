"""A strategy inside another: its last step is renamed, its failures are steps, limits pass."""

from typing import Any

from taofold.core.effects import Answer, Strategy, ask, begin, fork, step
from taofold.core.values import Thought
from taofold.reasoning import SelfCorrect, Task
from taofold.reasoning.nested import Solved, alone, closing

from .kit import play

TASK = Task(goal="g")


def careless(task: Task) -> Strategy[Any]:
    """Knows nothing of limits and returns a bare value."""
    yield from begin()
    reply = yield from ask(task.opening("", task.goal))
    yield from step(Thought("mine"), "mine", reply.text)
    yield closing(Thought("done"), reply.text, task.output)
    return reply.text


def stubborn(task: Task) -> Strategy[Any]:
    """Goes on after a limit, which no strategy may."""
    try:
        yield from ask(task.opening("", task.goal))
    except Exception:
        yield from begin()


def broken(task: Task) -> Strategy[Answer]:
    yield from begin()
    return Answer(None, "error", "it broke\nin two lines")


def looping(task: Task) -> Strategy[Answer]:
    yield from begin()
    return Answer(None, "loop_detected")


def test_only_its_finish_is_renamed_and_a_bare_value_is_an_answer() -> None:
    done = play(alone(careless, TASK, "draft", round=1), ["text"])
    assert done.answer == Solved(Answer("text"))
    assert done.answer.good
    assert not done.answer.error
    assert done.steps == ["mine", "draft"]
    assert done.acts("draft")[0].actions[0].parameters == {"round": 1}
    assert done.acts("draft")[0].thought.content == "done"


def test_a_limit_in_the_middle_is_its_answer_and_no_step() -> None:
    for strategy in (careless, stubborn):
        done = play(alone(strategy, TASK, "draft"), [], halt=1)
        assert done.answer.limit == "timeout"
        assert done.answer.error == "stopped: timeout"
        assert (done.steps, done.answer.usable) == ([], False)


def test_a_limit_in_the_middle_keeps_what_the_inner_strategy_has() -> None:
    done = play(alone(SelfCorrect(), TASK, "solve"), ["v0"], halt=2)
    assert done.answer == Solved(Answer("v0", "timeout"))
    assert done.answer.usable


def test_a_failure_is_a_step_of_its_name() -> None:
    done = play(alone(broken, TASK, "solve", id="a"), [])
    seen = done.acts("solve")[0].local[0]
    assert seen is not None
    assert (seen.status, seen.extraction) == ("failure", "it broke")
    assert (done.answer.limit, done.answer.usable) == ("", False)


def test_a_loop_inside_is_the_inner_strategys_failure_and_no_limit_of_the_run() -> None:
    done = play(alone(looping, TASK, "solve"), [])
    assert done.answer.limit == ""
    assert done.answer.error == "stopped: loop_detected"
    assert done.steps == ["solve"]


def test_strategies_run_in_branches_may_fork_themselves() -> None:
    def forking(task: Task) -> Strategy[Any]:
        found = yield from fork([careless(task), careless(task)])
        yield closing(Thought("both"), "".join(found), task.output)
        return Answer("".join(found))

    done = play(alone(forking, TASK, "draft"), ["a", "b"])
    assert done.answer == Solved(Answer("ab"))
    assert done.steps == ["mine", "finish", "mine", "finish", "draft"]


def test_a_draft_from_a_limited_strategy_is_the_answer_of_a_limited_run() -> None:
    def partial(task: Task) -> Strategy[Answer]:
        yield from begin()
        yield closing(Thought("what I have"), "half", task.output)
        return Answer("half", "max_steps")

    done = play(SelfCorrect(inner=partial)(TASK), [])
    assert done.answer == Answer("half", "max_steps")
    assert done.steps == ["draft", "finish"]
