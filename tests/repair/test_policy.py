"""The policy as a model: pure, honest about what it is, one edit per turn, within the rules."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.core.content import Conversation
from taofold.core.errors import ConfigError
from taofold.core.values import Action, Message, Observation, Step, Thought
from taofold.runtime.model import Model, Request
from taofold_repair import NAME, RepairModel, connect, replies
from taofold_repair.model import COMMAND, about_tests, command_in
from taofold_repair.search import key_of, search_state, standing
from taofold_repair.transcript import read
from tests.core.judging import ground
from tests.repair.corpus import PROGRAMS
from tests.repair.driver import GOAL, SYSTEM, Outcome, Pytest, ask, drive


@pytest.fixture(scope="module")
def outcome(warm: Pytest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run with several candidates taken back."""
    folder = tmp_path_factory.mktemp("program")
    code, tests = PROGRAMS["index_behind_the_end"]
    (folder / "program.py").write_text(code)
    (folder / "test_program.py").write_text(tests)
    return drive(folder, warm)


def actions(reply: dict[str, Any]) -> list[dict[str, Any]]:
    return reply.get("actions") or [reply["action"]]


def test_it_is_a_model_with_a_name_a_price_and_a_window() -> None:
    model: Model = connect("repair")
    assert model.name == NAME == "offline:repair"
    assert model.price(1000, 1000) == 0.0
    assert model.profile.window_known
    assert not model.profile.native_tools


def test_another_name_or_an_option_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        connect("other")
    with pytest.raises(ConfigError):
        connect("repair", base_url="http://x")


def test_the_same_conversation_gives_the_same_reply(outcome: Outcome) -> None:
    for end in range(2, len(outcome.messages) + 1, 2):
        first, second = ask(outcome.messages[:end]), ask(list(outcome.messages[:end]))
        assert first == second == outcome.replies[(end - 2) // 2]


def test_listeners_hear_the_reply() -> None:
    heard: list[str] = []
    messages = [Message("system", SYSTEM), Message("user", GOAL)]
    reply = asyncio.run(RepairModel().complete(Request(Conversation(messages)), heard.append))
    assert "".join(heard) == reply.text
    assert reply.model == NAME


def test_it_says_what_it_is_first_and_last(outcome: Outcome) -> None:
    said = "search policy, not a language model"
    assert said in outcome.replies[0]["thought"]
    assert said in outcome.answer
    assert outcome.repaired


def test_there_is_one_candidate_edit_per_turn(outcome: Outcome) -> None:
    changing = [r for r in outcome.replies if any(a["tool"] == "edit_file" for a in actions(r))]
    assert len(changing) > 1
    assert all(len(actions(reply)) == 1 for reply in changing)


def test_every_thought_is_typed_and_after_a_failure_it_is_an_exception(outcome: Outcome) -> None:
    turns = read(outcome.messages).turns
    assert outcome.replies[0]["thought_type"] == "goal"
    for turn, reply in zip(turns, outcome.replies[1:], strict=True):
        failed = any(deed.failed for deed in turn)
        assert (reply["thought_type"] == "exception") == failed
    assert all(a["rationale"] for reply in outcome.replies for a in actions(reply))


def test_a_failed_action_is_never_repeated_unchanged(outcome: Outcome) -> None:
    for before, after in zip(read(outcome.messages).turns, outcome.replies[1:], strict=True):
        failed = [(d.tool, dict(d.parameters)) for d in before if d.failed]
        assert not [a for a in actions(after) if (a["tool"], a["parameters"]) in failed]


def test_every_thought_from_step_two_on_is_grounded(outcome: Outcome) -> None:
    steps: list[Step] = []
    for number, (turn, reply) in enumerate(
        zip(read(outcome.messages).turns, outcome.replies, strict=False), 1
    ):
        thought = Thought(reply["thought"], reply["thought_type"], tuple(reply.get("because", ())))
        taken = tuple(Action(a["tool"], a["parameters"], a["rationale"]) for a in actions(reply))
        seen = tuple(Observation(deed.text) for deed in turn)
        steps.append(Step(number, thought, taken, seen))
    judged = ground(steps, goal=GOAL, instructions=SYSTEM)
    assert [one.step for one in judged if one.step > 1 and not one.grounded] == []


@pytest.mark.parametrize(
    "goal",
    [
        "What is the capital of France?",
        "Write tests for the parser",
        "Delete the failing tests",
        "Fix the typo in the README",
        "Summarise notes.txt\n\n## Cross-Loop Learning Context\nFix failing tests",
        "",
    ],
)
def test_other_goals_are_declined(goal: str) -> None:
    reply = ask([Message("system", SYSTEM), Message("user", goal)])
    assert reply["action"]["tool"] == "finish"
    assert reply["action"]["parameters"]["answer"].startswith("declined:")
    assert "decline" in reply["thought"]


@pytest.mark.parametrize(
    "goal",
    [
        "Make the failing tests pass.",
        "Fix the bug: tests/test_cart.py fails",
        "Repair this project until `python -m pytest -q` passes",
        "pytest is red, get it green",
    ],
)
def test_goals_about_failing_tests_are_taken(goal: str) -> None:
    assert about_tests(goal)
    reply = ask([Message("system", SYSTEM), Message("user", goal)])
    assert reply["action"]["tool"] == "run_command"


def test_without_the_tools_it_declines_and_names_them() -> None:
    reply = ask([Message("system", "Tools:\n- run_command: run"), Message("user", GOAL)])
    answer = reply["action"]["parameters"]["answer"]
    assert answer.startswith("declined:")
    assert "edit_file" in answer


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (GOAL, COMMAND),
        ("make `python -m pytest -q` pass", "python -m pytest -q --tb=short"),
        (
            "run /v/bin/python3 -m pytest -q -x tests.",
            "/v/bin/python3 -m pytest -q tests --tb=short",
        ),
        ("make pytest tests/test_a.py green", "pytest tests/test_a.py --tb=short"),
        ("use pytest -q; rm -rf / to fix tests", "pytest -q --tb=short"),
    ],
)
def test_the_command_is_the_one_that_people_name(said: str, command: str) -> None:
    assert command_in(said) == command


def test_on_the_last_turn_it_finishes_without_tools_and_says_what_is_left(
    outcome: Outcome,
) -> None:
    last = "This is your last turn and no tool can be used any more."
    reply = ask([*outcome.messages[:12], Message("user", last)])
    assert reply["action"]["tool"] == "finish"
    assert reply["action"]["parameters"]["answer"].startswith("unfinished:")


def test_a_later_attempt_does_not_try_again_what_the_first_one_tried(outcome: Outcome) -> None:
    last = Message("user", "This is your last turn and no tool can be used any more.")
    answer = ask([*outcome.messages[:-2], last])["action"]["parameters"]["answer"]
    assert "Tried without success" in answer
    first = next(r for r in outcome.replies if actions(r)[0]["tool"] == "edit_file")
    opening = [Message("system", SYSTEM), Message("user", f"{GOAL}\nEarlier: {answer}")]
    at = outcome.replies.index(first)
    again = ask([*opening, *outcome.messages[2 : 2 + 2 * at]])
    assert again["action"]["tool"] == "edit_file"
    assert again["action"]["parameters"] != first["action"]["parameters"]


def cut(outcome: Outcome, at: int, earlier: str = "") -> dict[str, Any]:
    """Returns the reply after `at` replies. `earlier` is part of the goal."""
    opening = [outcome.messages[0], Message("user", f"{GOAL}\nEarlier: {earlier}")]
    return ask([*opening, *outcome.messages[2 : 2 + 2 * at]])


def proposals(outcome: Outcome) -> list[int]:
    """Returns the replies that propose a candidate."""
    return [
        number
        for number, reply in enumerate(outcome.replies)
        if "Candidate" in reply["thought"] and "one candidate edit per turn" in reply["thought"]
    ]


def test_a_candidate_that_was_not_tested_is_not_marked_as_tried(outcome: Outcome) -> None:
    last = Message("user", "This is your last turn and no tool can be used any more.")
    at = proposals(outcome)[0]
    answer = ask([*outcome.messages[: 2 + 2 * (at + 1)], last])["action"]["parameters"]["answer"]
    assert "Not taken back" in answer
    assert "Tried without success" not in answer


def test_an_edit_tried_when_something_else_failed_comes_again_after_all_that_is_new(
    outcome: Outcome,
) -> None:
    at = proposals(outcome)[0]
    seen: list[str] = []
    while True:  # each time with one more mark of another state of the code
        said = " ".join([replies.mark(key, "something else failed") for key in seen])
        reply = cut(outcome, at, f"Tried without success: [{said}].")
        key = key_of(reply["action"]["parameters"])
        if key in seen:
            break
        seen.append(key)
    assert len(seen) > 3
    assert key == seen[0]

    now = standing(search_state(read(outcome.messages[: 2 + 2 * at], ()).actions).report)
    said = " ".join([replies.mark(key, now) for key in seen])
    reply = cut(outcome, at, f"Tried without success: [{said}].")
    assert reply["action"]["tool"] == "finish"
    assert "no template helps" in reply["action"]["parameters"]["answer"]


def test_a_refused_edit_counts_as_tried_and_the_next_one_follows(outcome: Outcome) -> None:
    at = next(
        number
        for number, reply in enumerate(outcome.replies)
        if actions(reply)[0]["tool"] == "edit_file"
    )
    refused = "Observation 4 [failure] edit_file: old is not in 'program.py': nothing was changed"
    upto = [*outcome.messages[: 3 + 2 * at], Message("user", refused)]
    reply = ask(upto)
    assert reply["thought_type"] == "exception"
    assert actions(reply)[0]["tool"] == "read_file"  # The file's content is doubtful now.


def test_tests_are_never_edited(warm: Pytest, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("def f():\n    return 'never this'\n")
    (tmp_path / "test_program.py").write_text(
        "from program import f\n\ndef test_impossible():\n    assert f() == f() + 'x'\n"
    )
    outcome = drive(tmp_path, warm)
    assert outcome.answer.startswith("failed:")
    edited = {a["parameters"]["path"] for r in outcome.replies for a in actions(r)
              if a["tool"] == "edit_file"}  # fmt: skip
    assert edited <= {"program.py"}
    assert (tmp_path / "program.py").read_text() == "def f():\n    return 'never this'\n"


def test_a_run_without_a_report_is_tried_once_more_and_then_given_up() -> None:
    messages = [Message("system", SYSTEM), Message("user", GOAL)]
    commands: list[str] = []
    for number in (1, 2):
        reply = ask(messages)
        commands.append(reply["action"]["parameters"]["command"])
        text = f"Observation {number} [failure] run_command: sh: not found"
        messages += [Message("assistant", json.dumps(reply)), Message("user", text)]
    assert commands[0] != commands[1]
    last = ask(messages)
    assert last["action"]["parameters"]["answer"].startswith("failed:")


def test_shortened_old_observations_do_not_change_what_was_decided(outcome: Outcome) -> None:
    """After tools' old output is folded, the search reads it again instead of starting over."""
    folded = [
        Message(m.role, m.content[:60]) if m.role == "user" and 4 <= n < 8 else m
        for n, m in enumerate(outcome.messages)
    ]
    upto = folded[:12]
    assert read(upto).goal == GOAL
    assert ask(upto)["action" if "action" in ask(upto) else "actions"]


def test_no_project_is_touched_by_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ask([Message("system", SYSTEM), Message("user", GOAL)])
    assert list(tmp_path.iterdir()) == []
