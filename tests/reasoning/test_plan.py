"""Plan, execute, evaluate, replan, driven by `send()`."""

from typing import Any

import pytest

from taofold.core.effects import Act, Answer, Outlook
from taofold.core.errors import ConfigError
from taofold.core.values import Action, Message, Observation
from taofold.reasoning import Offer, Output, Plan, Task

from .kit import Play, play

OFFERS = tuple(
    Offer(name, f"Tool {name}.", {"type": "object", "properties": {"x": {"type": "string"}}})
    for name in ("search", "read", "write")
)


def todo(id_: str, tool: str = "search", *depends: str, **args: Any) -> dict[str, Any]:
    return {"id": id_, "description": f"do {id_}", "tool": tool, "args": args, "depends": depends}


def tasks(*some: Any, thought: str = "these will do") -> dict[str, Any]:
    return {"thought": thought, "tasks": list(some)}


def said(achieved: bool, feedback: str = "", **more: Any) -> dict[str, Any]:
    return {"reasoning": "seen", "achieved": achieved, "feedback": feedback, **more}


def model(plans: Any, verdicts: Any, final: Any = "the answer", retries: Any = ()) -> Any:
    given = {
        "planner": iter(plans),
        "evaluator": iter(verdicts),
        "executor": iter(retries),
        "finalizer": iter([final] * 3),
    }
    return lambda ask: next(given[ask.role])


def plan(
    plans: Any,
    verdicts: Any,
    final: Any = "the answer",
    retries: Any = (),
    type_: Any = str,
    options: Any = None,
    offers: tuple[Offer, ...] = OFFERS,
    **more: Any,
) -> Play:
    task = Task(goal="the goal", offers=offers, output=Output(type_))
    strategy = Plan(**(options or {}))(task)
    return play(strategy, model(plans, verdicts, final, retries), **more)


@pytest.mark.scenario("TAG-13")
def test_once_achieved_there_is_no_further_call_but_the_formatting() -> None:
    done = plan([tasks(todo("t1"))], [said(True)])
    assert done.roles == ["planner", "evaluator", "finalizer"]
    assert done.steps == ["plan", "search", "evaluate", "finish"]
    assert done.answer == Answer("the answer", "criteria_met")


@pytest.mark.scenario("TAG-26")
def test_every_kind_of_call_has_its_role() -> None:
    failing = iter([Observation("no", "failure"), Observation("yes")])
    done = plan(
        [tasks(todo("t1"))],
        [said(True)],
        retries=[{"thought": "otherwise", "tool": "read", "args": {}}],
        tool=lambda action: next(failing),
    )
    assert done.roles == ["planner", "executor", "evaluator", "finalizer"]


@pytest.mark.scenario("TAG-14")
def test_feedback_missing_items_and_suggestions_are_in_the_next_plans_prompt() -> None:
    no = said(False, "too thin", missing=["the year"], suggestions=["try the archive"])
    done = plan([tasks(todo("t1", x="a")), tasks(todo("t2", x="b"))], [no, said(True)])
    prompt = done.prompt(2)
    assert done.roles[2] == "planner"
    for word in ("too thin", "the year", "try the archive", "[t1] search do t1 [success]"):
        assert word in prompt
        assert word not in done.prompt(0)


@pytest.mark.scenario("TAG-14")
@pytest.mark.parametrize("rejections", [1, 3])
def test_after_k_rejections_it_ends_as_not_achieved(rejections: int) -> None:
    plans = [tasks(todo(f"t{n}", x=f"{n}")) for n in range(5)]
    verdicts = [said(False, f"no {n}", missing=["m"]) for n in range(5)]
    done = plan(plans, verdicts, options={"rejections": rejections})
    assert done.roles == ["planner", "evaluator"] * rejections
    assert done.answer.output is None
    last = f"no {rejections - 1}; m"
    assert done.answer.error == f"not achieved after {rejections} rejections: {last}"


def test_an_evaluator_that_cannot_be_read_never_counts_as_achieved() -> None:
    plans = [tasks(todo(f"t{n}", x=f"{n}")) for n in range(3)]
    done = plan(plans, ["?"] * 9)
    assert done.answer.error.startswith("not achieved after 3 rejections")
    failed = done.acts("evaluate")
    assert [one.local[0].status for one in failed if one.local[0]] == ["failure"] * 3
    assert done.acts("plan")[1].thought.type == "exception"


@pytest.mark.scenario("TAG-31")
def test_a_result_is_passed_on_by_its_native_value_and_orders_the_tasks() -> None:
    seen: list[Action] = []
    first = "{{ t1.output.path[0] }}"

    def tool(action: Action) -> Observation:
        seen.append(action)
        return Observation({"path": [{"id": 7}]})

    done = plan(
        [tasks(todo("t2", "read", x=first, n=first.replace(" }}", ".id }}")), todo("t1"))],
        [said(True)],
        tool=tool,
    )
    assert [action.id for action in seen] == ["t1", "t2"]
    assert seen[1].parameters == {"x": {"id": 7}, "n": 7}
    assert done.answer.output == "the answer"


@pytest.mark.scenario("TAG-31")
def test_an_unresolved_reference_fails_its_task_with_the_reason_and_no_tool_runs() -> None:
    ran: list[str] = []

    def tool(action: Action) -> Observation:
        ran.append(action.id)
        return Observation({"a": 1})

    done = plan(
        [tasks(todo("t1"), todo("t2", "read", x="{{ t1.output.b }}"), todo("t3", "write", "t2"))],
        [said(True)],
        tool=tool,
    )
    assert ran == ["t1"]
    acts = [one for one in done.effects if isinstance(one, Act)]
    unresolved, skipped = acts[2].local[0], acts[3].local[0]
    assert unresolved is not None
    assert skipped is not None
    assert unresolved.refused == "unresolved"
    assert "t1.output has no 'b'; its keys: 'a'" in str(unresolved.result)
    assert skipped.refused == "skipped"
    assert "depends on 't2', which failed" in str(skipped.result)
    assert "executor" not in done.roles
    assert "t1.output has no 'b'" in done.prompt(1)


@pytest.mark.scenario("TAG-31")
def test_a_reference_to_a_task_that_does_not_exist_fails_with_the_reason() -> None:
    done = plan([tasks(todo("t1", x="{{ t7.output }}"))], [said(True)])
    assert "there is no result of a task 't7'" in done.prompt(1)


def test_independent_tasks_are_one_batch_and_the_rest_waits() -> None:
    done = plan([tasks(todo("a"), todo("b"), todo("c", "read", "a", "b"))], [said(True)])
    batches = [[a.id for a in one.actions] for one in done.effects if isinstance(one, Act)]
    assert batches[1:3] == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (tasks(todo("a", "fly")), "unknown_tool"),
        (tasks(todo("a", "search", "b"), todo("b", "search", "a")), "cycle"),
        (tasks(todo("a", "search", "zzz")), "unknown_dependency"),
        (tasks(todo("a"), todo("a")), "duplicate_id"),
    ],
)
def test_an_impossible_plan_is_sent_back(wrong: Any, kind: str) -> None:
    done = plan([wrong, tasks(todo("a"))], [said(True)])
    assert done.notes("violation")[0]["detail"].startswith(kind)
    assert done.answer.output == "the answer"
    never = plan([wrong] * 3, [])
    assert never.answer.error.startswith(f"{kind}: ")


def test_an_id_with_a_result_is_not_used_again() -> None:
    done = plan(
        [tasks(todo("t1", x="a")), tasks(todo("t1", x="b")), tasks(todo("t2", x="b"))],
        [said(False, "more"), said(True)],
    )
    assert done.notes("violation")[0]["detail"].startswith("duplicate_id")


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_failed_task_is_tried_in_another_way_as_often_as_allowed(retries: int) -> None:
    again = [{"thought": "otherwise", "tool": "read", "args": {"x": f"{n}"}} for n in range(9)]
    done = plan(
        [tasks(todo("t1"))],
        [said(True)],
        retries=again,
        options={"retries": retries},
        tool=lambda action: Observation("no", "failure"),
    )
    assert done.roles.count("executor") == retries
    assert done.steps == ["plan", "search", *["read"] * retries, "evaluate", "finish"]
    thoughts = [one.thought.type for one in done.effects if isinstance(one, Act)]
    assert thoughts[2:] == ["exception"] * retries + ["exception", "synthesis"]


def test_a_retry_may_be_given_up_is_checked_and_stops_at_refusals() -> None:
    fail: dict[str, Any] = {"tool": lambda action: Observation("no", "failure")}
    up = plan([tasks(todo("t1"))], [said(True)], retries=[{"give_up": True}], **fail)
    assert up.steps == ["plan", "search", "evaluate", "finish"]
    wrong = {"tool": "fly", "args": {}}
    lost = plan([tasks(todo("t1"))], [said(True)], retries=[wrong] * 3, **fail)
    assert [one["detail"].split(":")[0] for one in lost.notes("violation")] == ["unknown_tool"] * 3
    denied = plan(
        [tasks(todo("t1"))],
        [said(True)],
        tool=lambda action: Observation("no", "failure", refused="denied"),
    )
    assert "executor" not in denied.roles
    astray = {"thought": "t", "tool": "read", "args": {"x": "{{ t9.output }}"}}
    unresolved = plan([tasks(todo("t1"))], [said(True)], retries=[astray], **fail)
    assert unresolved.acts("read")[0].local[0] is not None


@pytest.mark.scenario("TAG-17")
def test_a_repeated_plan_is_not_run_and_the_hint_names_unused_tools_then_it_stops() -> None:
    same = [tasks(todo(f"t{n}", x="same")) for n in range(3)]
    done = plan(same, [said(False, "more")] * 9)
    assert done.steps == ["plan", "search", "evaluate", "plan", "plan", "finish"]
    hint = done.prompt(3)
    assert "Tools not used yet: read, write" in hint
    assert [one["rule"] for one in done.notes("violation")] == ["repetition", "repetition"]
    assert done.answer == Answer("the answer", "loop_detected")


@pytest.mark.scenario("TAG-17")
def test_two_plans_that_take_turns_are_a_loop_and_another_way_is_not() -> None:
    plans = [tasks(todo(f"t{n}", x="ab"[n % 2])) for n in range(4)]
    plans.append(tasks(todo("t9", "read", x="new")))
    verdicts = [said(False, "more")] * 3 + [said(True)]
    done = plan(plans, verdicts, options={"rejections": 9})
    assert len(done.notes("violation")) == 1
    assert done.answer == Answer("the answer", "criteria_met")


@pytest.mark.scenario("TAG-18")
def test_the_answer_has_the_tasks_type_or_an_error_says_that_it_has_not() -> None:
    good = plan([tasks(todo("t1"))], [said(True)], final='{"n": 3}', type_=dict[str, int])
    assert good.answer == Answer({"n": 3}, "criteria_met")
    bad = plan([tasks(todo("t1"))], [said(True)], final="?", type_=int)
    assert bad.answer.output is None
    assert bad.answer.stop == "error"
    assert "could not be put into the answer's form" in bad.answer.error


def test_limits_end_it_with_an_answer_from_the_results_if_a_call_is_left() -> None:
    begun = Outlook()
    near = plan([tasks(todo("t1"))], [], outlooks=[begun, Outlook(wrap_up="max_steps")])
    assert near.answer == Answer("the answer", "max_steps")
    assert near.steps == ["plan", "finish"]
    over = plan([tasks(todo("t1"))], [], outlooks=[begun, Outlook(stop="max_steps")])
    assert over.answer == Answer(None, "max_steps")
    halted = plan([tasks(todo("t1"))], [], halt=2)
    assert halted.answer == Answer(None, "timeout")
    lost = plan([tasks(todo("t1"))], [], "?", type_=int, outlooks=[Outlook(wrap_up="max_usd")])
    assert lost.answer.stop == "max_usd"
    assert lost.answer.error


@pytest.mark.parametrize(
    ("verdict", "stop"),
    [(said(True), "criteria_met"), (said(False), "max_steps"), ("?", "max_steps")],
)
def test_an_evaluation_may_be_the_last_step(verdict: Any, stop: str) -> None:
    outlooks = [Outlook(), Outlook(), Outlook(wrap_up="max_steps"), Outlook(stop="max_steps")]
    done = plan([tasks(todo("t1"))], [verdict] * 3, outlooks=outlooks)
    assert done.steps == ["plan", "search", "evaluate", "finish"]
    assert done.answer == Answer("the answer", stop)


def test_an_evaluation_needs_a_model_call_for_the_answer_after_it() -> None:
    outlooks = [Outlook(), Outlook(), Outlook(wrap_up="max_model_calls")]
    done = plan([tasks(todo("t1"))], [], outlooks=outlooks)
    assert done.steps == ["plan", "search", "finish"]
    assert done.answer == Answer("the answer", "max_model_calls")


def test_it_works_without_tools_and_hears_people() -> None:
    heard = Outlook(heard=(Message("user", "[message from ann] be brief"),))
    done = plan([tasks()], [said(True)], offers=(), outlooks=[heard])
    assert done.steps == ["plan", "evaluate", "finish"]
    assert all("be brief" in done.prompt(n) for n in range(3))
    wrong = plan([tasks(todo("t1"))] * 3, [], offers=())
    assert "none" in wrong.answer.error


def test_a_large_output_is_shown_short_and_one_kept_aside_is_not_passed_on() -> None:
    aside = Observation("start…", blob="sha")
    done = plan(
        [tasks(todo("t1"), todo("t2", "read", x="{{ t1.output }}"))],
        [said(True)],
        tool=lambda action: aside,
    )
    assert "too large to be passed on" in done.prompt(1)
    long = plan([tasks(todo("t1"))], [said(True)], tool=lambda action: Observation("x" * 50_000))
    assert len(long.prompt(1)) < 7000
    assert "46000 more characters" in long.prompt(1)


def test_many_results_do_not_flood_the_prompt() -> None:
    plans = [tasks(*[todo(f"t{c}_{n}", x=f"{c}{n}") for n in range(10)]) for c in range(5)]
    done = plan(
        plans,
        [said(False, "more")] * 4 + [said(True)],
        options={"rejections": 9},
        tool=lambda action: Observation("y" * 5000),
    )
    budget = Task(goal="").budget
    assert len(done.prompt(-1)) < budget


def test_every_thought_and_rationale_has_words() -> None:
    second = {"id": "t2", "tool": "read", "depends": ["t1"]}
    done = plan([{"tasks": [{"id": "t1", "tool": "search"}, second]}], [{"achieved": True}])
    for one in done.effects:
        if isinstance(one, Act):
            assert one.thought.content
            assert one.thought.synthesized
            assert one.local or all(action.rationale for action in one.actions)


@pytest.mark.parametrize("wrong", [{"rejections": 0}, {"retries": -1}])
def test_impossible_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Plan(**wrong)
