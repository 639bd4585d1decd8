"""The search of tools: the choice of deferred ones, ranking, and the offers of a model.

Mutants it catches: words of a query that are operators, found tools before the others, an offer
that forgets found tools, a run of an older log that is offered a search.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Policy, Toolset, tool
from taofold.core import events as e
from taofold.core.content import ToolCall
from taofold.core.errors import ConfigError
from taofold.core.values import Profile, Reply
from taofold.reasoning import Offer, Task
from taofold.testing import ScriptedModel
from taofold.tools.deferral import KEPT_GROUP, MOST_CHARS, MOST_OFFERED, deferred
from taofold.tools.search import ToolIndex, search_tool
from taofold.tools.tool import Tool, external
from taofold.tools.word_index import WordIndex, words

pytestmark = pytest.mark.anyio
NATIVE = Profile(window=1_000_000, window_known=True, native_tools=True)


def made(name: str, about: str = "", toolset: str = "office", **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties}

    def answer(given: dict[str, Any]) -> str:
        return name

    return external(name, about, schema, answer, effect="read", toolset=toolset)


def many(count: int, toolset: str = "office") -> list[Tool]:
    return [made(f"{toolset}_{n}", f"Does job {n}.", toolset) for n in range(count)]


@tool(effect="read")
def look() -> str:
    """Looks."""
    return "seen"


ISSUES = [
    made("createIssue", "Files a new ticket in a project.", project="Key of the project"),
    made("delete_branch", "Removes a branch of a repository."),
    made("list_pull_requests", "Lists open proposals of change."),
    made("upload", "Stores bytes.", target="Where the attachment of a ticket goes"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue", "createIssue"),
        ("file a ticket", "createIssue"),
        ("pull requests", "list_pull_requests"),
        ("listing pull request", "list_pull_requests"),
        ("remove branches", "delete_branch"),
        ("attachment", "upload"),
        ('issue" OR name:*', "createIssue"),
        ("NEAR(branch) AND NOT x", "delete_branch"),
    ],
)
def test_the_best_match_comes_first(query: str, first: str) -> None:
    assert ToolIndex(ISSUES).find(query)[0] == first


@pytest.mark.parametrize("query", ["", "  ", '"', "zzz", "***", "()", "\0"])
def test_a_query_without_a_match_finds_nothing(query: str) -> None:
    assert ToolIndex(ISSUES).find(query) == []


@pytest.mark.parametrize("texts", ["", "create issue ticket " * 20])
def test_one_toolset_does_not_displace_the_tools_of_others(texts: str) -> None:
    """Mutant: the best matches of all toolsets."""
    flood = [made(f"create_issue_{n}", f"Create issue {texts}", "hostile") for n in range(50)]
    index = ToolIndex([*flood, *ISSUES])
    found = index.find("create issue")
    assert "createIssue" in found
    assert len(found) == len([name for name in found if name.startswith("create_issue_")]) + 1
    found = index.find("issue ticket branch pull")
    assert {"createIssue", "delete_branch", "list_pull_requests", "upload"} <= {*found}
    # Without a match elsewhere one toolset has all places.
    assert len(ToolIndex(flood).find("create issue")) == 8


def test_words_of_other_alphabets_are_found() -> None:
    index = ToolIndex([made("a", "Überweist Geld."), made("b", "Отправить письмо.")])
    assert index.find("überweist") == ["a"]
    assert index.find("письмо") == ["b"]


def act(name: str, **given: Any) -> str:
    return json.dumps({"thought": "t", "action": {"tool": name, "parameters": given}})


def names(tools: list[Tool], wanted: bool | None) -> set[str]:
    return set(deferred(Toolset(tools), wanted))


def test_only_many_tools_are_deferred_the_largest_toolset_first() -> None:
    few = [*many(20, "a"), *many(MOST_OFFERED - 20, "b")]
    assert names(few, None) == set()
    above = [*few, look]
    assert names(above, None) == {t.name for t in many(MOST_OFFERED - 20, "b")}
    assert names(above, False) == set()
    small = [*many(KEPT_GROUP, "small"), *many(KEPT_GROUP + 1, "large"), look]
    assert names(small, None) == set()
    assert names(small, True) == {t.name for t in many(KEPT_GROUP + 1, "large")}
    # Tools that were listed one by one are deferred last, and only if they are too many.
    alone = many(MOST_OFFERED + 1, "")
    assert names([*alone, *many(11, "x")], None) == {t.name for t in [*alone, *many(11, "x")]}
    heavy = [made(f"h{n}", "x" * (MOST_CHARS // 10), "heavy") for n in range(11)]
    assert names([*heavy, look], None) == {t.name for t in heavy}


def test_a_native_model_is_offered_found_tools_after_the_others() -> None:
    def call(name: str, **given: Any) -> Reply:
        return Reply("t", calls=(ToolCall(name, json.dumps(given), f"c{name}"),))

    model = ScriptedModel(
        [call("search_tools", query="job 7"), call("office_7"), Reply("done")], NATIVE
    )
    agent = Agent(model, tools=[look, Toolset(many(60))])
    result = agent.run_sync("Do job 7.")
    assert result.output == "done"
    first, second, third = [[spec.name for spec in asked.tools] for asked in model.requests]
    assert first == ["look", "search_tools"]
    assert second[: len(first)] == first
    assert "office_7" in second[len(first) :]
    assert third == second
    assert "office_7" not in str(agent.toolset["search_tools"].description)
    assert "60 more, of: office (60)" in agent.toolset["search_tools"].description
    [search, used] = [step.observations[0] for step in result.steps][:2]
    assert search.result["tools"]["office_7"].endswith("Does job 7.")
    # The model reads the signatures as tools, so the result has only their names.
    shown = model.requests[1].messages[-1].results[0].text
    assert shown.startswith('Observation: 1 [success] search_tools: {"tools":["office_7"')
    assert "Does job 7." not in shown
    assert used.result == "office_7"


def test_a_model_without_native_calls_reads_the_signature() -> None:
    replies = [act("search_tools", query="job 7"), act("office_7"), act("finish", answer="done")]
    model = ScriptedModel(replies)
    result = Agent(model, tools=[look, Toolset(many(60))]).run_sync("Do job 7.")
    assert result.output == "done"
    system = model.requests[0].messages[0].text
    assert "- look(" in system
    assert "office_7" not in system
    assert '"office_7":"(' in model.requests[1].messages[-1].text


def test_the_form_of_a_reply_has_found_tools_only() -> None:
    offers = (Offer("look", "", {"type": "object"}), Offer("away", "", {}, deferred=True))
    task = Task(goal="goal", offers=offers)
    assert '"away"' not in json.dumps(task.reply_schema())
    assert '"away"' in json.dumps(task.reply_schema(found=("away",)))
    assert "away" not in task.system_prompt()


async def test_a_replay_and_a_resumed_run_keep_what_was_found(tmp_path: Path) -> None:
    replies = [act("search_tools", query="job 7"), act("office_7"), act("finish", answer="done")]
    agent = Agent(ScriptedModel(replies), tools=[Toolset(many(60))], log=str(tmp_path / "runs.db"))
    result = await agent.run("Do job 7.")
    started = result.records[0].event
    assert isinstance(started, e.RunStarted)
    assert started.settings["tool_search"] is True
    assert (await agent.replay(result)).output == "done"
    # A run that began without a search is offered all tools, as it was.
    plain = agent.replace(model=ScriptedModel(replies[1:]), tool_search=False)
    before = await plain.run("Do job 7.")
    assert (await agent.replay(before)).output == "done"


def test_tools_can_be_called_without_a_search() -> None:
    """A model may know the name from an earlier conversation."""
    result = Agent(
        ScriptedModel([act("office_7"), act("finish", answer="x")]), tools=[Toolset(many(60))]
    ).run_sync("Do job 7.")
    assert result.steps[0].observations[0].result == "office_7"


def test_policy_applies_to_a_found_tool() -> None:
    agent = Agent(
        ScriptedModel([act("office_7"), act("finish", answer="x")]),
        tools=[Toolset(many(60))],
        policy=Policy(deny=frozenset({"office_7"})),
    )
    assert agent.run_sync("Do job 7.").steps[0].observations[0].status == "failure"


async def test_an_unfound_query_is_answered_in_words() -> None:
    outcome = await search_tool(many(2)).bind({"query": "qqq"}).run(None)
    assert "describe the task in other words" in outcome.value


def test_each_tool_that_is_not_offered_can_be_found() -> None:
    """The search itself fills the last place. Mutant: the choice is made again with it."""
    agent = Agent("test", tools=[Toolset(many(60, "a")), Toolset(many(30, "b")), *many(20, "")])
    away = {offer.name for offer in agent.offers if offer.deferred}
    assert away == {tool.name for tool in many(60, "a")}
    assert len(agent.offers) - len(away) == MOST_OFFERED + 1


def test_a_foreign_tool_is_not_taken_for_the_search() -> None:
    """Its results would choose the tools on offer. Mutant: known by its name alone."""
    foreign = made("search_tools", "Finds.", "search")
    assert "search_tools" in Agent("test", tools=[foreign, look]).toolset
    crowded = Agent("test", tools=[foreign, Toolset(many(60))])
    with pytest.raises(ConfigError, match="a tool is named 'search_tools'"):
        len(crowded.toolset)
    assert len(crowded.replace(tool_search=False).toolset) == 61


def test_a_wrong_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="tool_search: is True, False, 'local' or None"):
        Agent("test", tool_search=50)  # type: ignore[arg-type]


async def test_an_unknown_name_among_many_tools_lists_similar_names_only() -> None:
    """Mutant: all names are listed, which are thousands of tokens that the search saves."""
    replies = ["OFFICE_1", "unlike_all_others"]
    script = [json.dumps({"thought": "t", "action": {"tool": each}}) for each in replies]
    agent = Agent(ScriptedModel([*script, "Done."]), tools=many(300))
    result = await agent.run("Go.")
    near, far = [step.observations[0].result for step in result.steps[:2]]
    assert near.startswith("unknown tool 'OFFICE_1'; did you mean 'office_1'")
    assert near.endswith("find tools with search_tools")
    assert far == (
        "unknown tool 'unlike_all_others'; there are 301 others; find tools with search_tools"
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cafe", "Cafés in the city"),
        ("cafés", "cafe"),
        ("muller", "Müller"),
        ("STRASSE", "Straße"),
        ("requete", "reque\u0302te"),
        ("creer", "créerFacture"),
        ("がぎ", "がぎぐ"),
        ("한국", "한국어"),
        ("йод", "Йод"),
    ],
)
def test_letters_are_found_with_and_without_accents(query: str, text: str) -> None:
    """Mutant: a letter with an accent splits its word."""
    index = WordIndex([["other words"], [text], ["cat mull stra"]])
    assert index.find(query) == [1]


@pytest.mark.parametrize(("one", "other"), [("И", "Й"), ("か", "が")])
def test_accents_of_other_scripts_are_letters(one: str, other: str) -> None:
    """Mutant: all combining marks are left out."""
    assert words(one) != words(other)
