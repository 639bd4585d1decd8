"""A thought's intent and justification: the rules' own good and bad examples, and everyday ones."""

import json

import pytest

from taofold import Agent, tool
from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.rules import INTENT, RATIONALE, UNGROUNDED, derived_violations
from taofold.core.vague_text import lacks_aim, lacks_content, lacks_intent, lacks_reason
from taofold.core.values import Action, Observation, Thought
from taofold.testing import ScriptedModel
from tests.core.story import Story


@tool(effect="read")
def look() -> str:
    """Looks."""
    return "seen"


TTL = (
    "The error message indicates a token expiration issue. I should check the token TTL "
    "configuration in the auth module because the default 60-second TTL is likely too short for "
    "our use case."
)


@pytest.mark.parametrize(
    "text",
    [
        "Looking at the code.",
        "Reading the file",
        "Got the result",
        "Let me check the files.",
        "Okay, let’s look at the logs",
        "I'll run the tests.",
        "Still working on it…",
        "Next: checking things",
        "…",
        ".",
        "\u200b",
        "Looking\u200b at the code.",
        "Look\u00ading at the code.",
    ],
)
def test_an_activity_and_nothing_else_is_no_intent(text: str) -> None:
    assert lacks_intent(text)


@pytest.mark.parametrize(
    "text",
    [
        TTL,
        "Checking TTL configuration value",
        "Searching for authentication-related code",
        "I need to find the authentication module to fix the token issue",
        "Fix the failing authentication tests",
        "From test output, token expiration is the issue",
        "I should check the config file for TTL value.",
        "I should check the config file.",
        "The TTL value needs to be increased to 3600 seconds.",
        "TOKEN_TTL = 60 // seconds",
        "Reading src/auth/config.ts",
        "Running the tests again since the guard is in",
        "four",
        "",
        "Ich sehe mir den Code an.",
    ],
)
def test_what_says_more_than_that_is_left_to_a_reader(text: str) -> None:
    assert not lacks_intent(text)


def rules(story: Story) -> set[str]:
    return {violation.rule for violation in derived_violations(story.records)}


def failing(story: Story) -> list[str]:
    return [item.name for item in check(story.records) if not item.passed]


def test_the_documents_bad_thought_fails_and_its_good_one_passes() -> None:
    good = Story().step(Thought(TTL, "reasoning"), rationale="Checking TTL configuration value")
    bad = Story().step(Thought("Looking at the code.", "reasoning"))
    assert INTENT not in rules(good)
    assert "typed_thoughts" not in failing(good)
    assert INTENT in rules(bad)
    assert failing(bad) == ["typed_thoughts"]


def test_the_documents_bad_action_gives_no_reason() -> None:
    good = Story().step("find the cause in it", rationale="Checking TTL configuration value")
    bad = Story().step("find the cause in it", rationale="Reading the file")
    assert RATIONALE not in rules(good)
    assert RATIONALE in rules(bad)
    assert failing(bad) == ["actions_with_tool_and_parameters"]


def test_the_documents_bad_observation_holds_no_result() -> None:
    good = Story().step("find the cause in it", result="TOKEN_TTL = 60 // seconds")
    bad = Story().step("find the cause in it", result="Got the result")
    assert failing(good) == []
    assert failing(bad) == ["observations_with_status_and_result"]


@pytest.mark.parametrize("result", ["running", "ran", "opened the file", "did it", "got 3 results"])
def test_short_words_that_tools_do_say_are_results(result: str) -> None:
    assert not lacks_content(result)
    assert failing(Story().step("find the cause in it", result=result)) == []


@pytest.mark.parametrize(
    ("thought", "grounded"),
    [
        (
            "Based on the TTL value of 60 seconds found in the config, I need to increase it to "
            "3600 for production use.",
            True,
        ),
        ("I'll update the lifetime to some larger value.", False),
    ],
)
def test_the_documents_examples_of_grounding(thought: str, grounded: bool) -> None:
    story = Story().step("find out how long tokens live", result="TTL = 60 seconds")
    story = story.step(Thought(thought, "reasoning"), n=2)
    assert (UNGROUNDED not in rules(story)) is grounded


def test_the_checklist_says_what_it_does_not_judge() -> None:
    story = Story().step("find it", result="alpha_1")
    story.see(story.think("alpha_1", Action("look", {}, "alpha_1 is there")), Observation("beta_2"))
    unjudged = {item.name: item.unjudged for item in check(story.records)}
    assert "intent" in unjudged["typed_thoughts"]
    assert "rationale" in unjudged["actions_with_tool_and_parameters"]
    assert unjudged["metrics_captured"] == ""


@pytest.mark.parametrize(
    "thought",
    [
        "I read the configuration of the server.",
        "I need to look at the module.",
        "Next I am going to run it.",
        "I change it to some larger value.",
        "I go to the file.",
        "Looking for the function.",
        "Let me search for the token.",
        "I run it, for now.",
    ],
)
def test_a_thought_without_a_reason_is_known_by_its_form(thought: str) -> None:
    assert lacks_reason(thought)


@pytest.mark.parametrize(
    "thought",
    [
        "I need to find the authentication module to fix the token issue",
        "Based on the TTL of 60 seconds I increase it to 3600 for production use.",
        "The tests fail because the import is missing.",
        "The error indicates a token that is expired.",
        "I should check the config file for the TTL value.",
        "The TTL value needs to be increased to 3600 seconds.",
        "Ich lese die Datei mit den Einstellungen.",
        "",
        "x " * 600,
    ],
)
def test_a_reason_a_purpose_and_another_language_are_no_fault(thought: str) -> None:
    assert not lacks_reason(thought)


@pytest.mark.parametrize(
    "thought",
    [
        "The build failed. Continuing.",
        "Calling the next tool.",
        "Moving on, because there is nothing else.",
        'The linter prints "unable to parse the header". Okay.',
        "The server stopped because the port is taken.",
        "Nine rows. Now on to something.",
    ],
)
def test_activities_and_facts_state_no_aim(thought: str) -> None:
    assert lacks_aim(thought)


@pytest.mark.parametrize(
    "thought",
    [
        "The build failed. Read the log of the linker.",
        "Checking the port because the server stopped, to see which process has it.",
        "I'll free the port.",
        "I read the configuration of the server.",
        "The lifetime is short, so I look at the log of the server.",
        "Ich will die Datei lesen.",
        "Fix the failed tests.",
        "Search for the header as the linter cannot parse it.",
    ],
)
def test_an_intention_or_a_request_is_an_aim(thought: str) -> None:
    assert not lacks_aim(thought)


def test_a_place_after_to_is_no_purpose() -> None:
    assert lacks_reason("I upgrade the library to at least 10.3 of the list.")
    assert not lacks_reason("I upgrade the library to mend the crash.")


@pytest.mark.parametrize("blank", ["…", ".", "\u200b", "--"])
def test_a_strict_run_asks_for_words(blank: str) -> None:
    """Mutant: `strip()`, which keeps invisible characters and dots."""

    def reply(tool: str, **parameters: str) -> str:
        action = {"tool": tool, "parameters": parameters, "rationale": blank}
        thought = {"thought": blank, "thought_type": "reasoning", "learned": blank}
        return json.dumps({**thought, "because": [1], "action": action})

    model = ScriptedModel([reply("look")] * 4 + [reply("finish", answer="x")] * 4)
    result = Agent(model, tools=[look], strict=True).run_sync("Look.")
    rules = {r.event.rule for r in result.records if isinstance(r.event, e.Violated)}
    assert {"unclear_intent", "missing_rationale", "missing_extraction"} <= rules
