"""The copilot with a scripted model: **no language model**, no key and no network.

It shows a batch, a child run, a card, a confirmation and a streamed answer, with the real tools and
policy. The services are an `Office`. Serve it with `taofold serve testops.rehearsal:agent` from
this folder. The script ignores the request.
"""

import asyncio
import json
from typing import Any

from taofold import Agent, Limits, Policy, Tier
from taofold.core.values import Profile, Reply, Usage
from taofold.runtime.model import OnText, Request
from taofold_testops.tools import toolset
from testops.office import Office

Line = tuple[str, str, list[tuple[str, dict[str, Any], str]]]
"""Thought type, thought, and actions: tool, parameters, rationale."""

COPILOT: tuple[Line, ...] = (
    ("goal", "I look at the red build and at the dashboard first, side by side.",
     [("jenkins_get_status", {"job": "checkout"}, "which test fails, since which commit"),
      ("dashboard_metrics", {}, "is it only this job")]),
    ("extraction", "Build 482 fails in test_refund_of_half_a_cent since commit 9f3c2e1.",
     [("github_get_commit", {"sha": "9f3c2e1"}, "what changed")]),
    ("reasoning", "9f3c2e1 replaced int(x + 0.5) by round(). The archive may know the rule.",
     [("ask_archivist", {"goal": "How must refunds be rounded?"}, "the runbook decides")]),
    ("progress", "The runbook says half up; round() is half to even. The team needs a bug for it.",
     [("jira_add_label", {"key": "SHOP-101", "label": "regression"}, "it was fixed once"),
      ("jira_create_issue",
       {"summary": "Refund of half a cent is rounded down since 9f3c2e1", "priority": "High",
        "description": "test_refund_of_half_a_cent fails in build 482 of checkout."},
       "make it visible")]),
    ("progress", "SHOP-101 was closed as fixed and is broken again: it should be reopened.",
     [("jira_transition_issue", {"key": "SHOP-101", "status": "Reopened"}, "the fix is gone")]),
)  # fmt: skip
ARCHIVIST: tuple[Line, ...] = (
    ("goal", "I search the wiki for rounding.",
     [("confluence_search", {"cql": "text ~ rounding"}, "the runbook on money")]),
)  # fmt: skip
ANSWER = (
    "Build 482 of checkout is red because commit 9f3c2e1 (mara, PR 77) rounds refunds with "
    "round(), which rounds half to even. The runbook wants half up: 0.025 must become 3 cents."
)


class Script:
    """Replaces the model: returns the next scripted reply at typing speed."""

    def __init__(self, name: str, lines: tuple[Line, ...], answer: str, pace: float) -> None:
        self.name, self.profile = name, Profile(window=32_000, window_known=True)
        self._lines, self._answer, self._pace = lines, answer, pace

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Returns the next line of the script."""
        number = sum(message.role == "assistant" for message in request.conversation)
        last = request.conversation[-1].content
        text = self._line(number) if number < len(self._lines) else self._close(last)
        for start in range(0, len(text), 24):
            await asyncio.sleep(self._pace)
            if on_text is not None:
                on_text(text[start : start + 24])
        asked = sum(len(message.content) for message in request.conversation)
        usage = Usage(asked // 4, len(text) // 4, 0, 0.0)
        return Reply(text, usage=usage, model=self.name, finish="stop")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns 0: a script costs nothing."""
        return 0.0

    def _line(self, number: int) -> str:
        kind, thought, actions = self._lines[number]
        calls = [{"tool": t, "parameters": p, "rationale": why} for t, p, why in actions]
        return json.dumps({"thought": thought, "thought_type": kind, "actions": calls})

    def _close(self, last: str) -> str:
        text, kind, thought = self._answer, "synthesis", "That explains it."
        if "denied by" in last:
            text += " You did not want the last change, so I left it."
            kind, thought = "exception", "The last change was denied: I say what is known."
        end = {"tool": "finish", "parameters": {"answer": text}, "rationale": "all is known"}
        return json.dumps({"thought": thought, "thought_type": kind, "action": end})


def rehearsal(pace: float = 0.04, office: Office | None = None) -> Agent:
    """Returns the copilot with its script, its tools and an office.

    Args:
        pace: Seconds per piece of text.
        office: The services. None for new ones.
    """
    office = office or Office()
    tools = toolset(office.accounts(), office)
    policy = Policy(approve_seconds=300, production_tiers={"jenkins_trigger_build": Tier.CONFIRM})
    archive = "Refunds round half up; Python's round() must not be used (runbook, page 4711)."
    archivist = Agent(
        Script("script:archivist", ARCHIVIST, archive, pace),
        name="archivist",
        description="Knows what the team wrote down.",
        tools=[tools.filtered(["confluence_search"])],
    )
    return Agent(
        Script("script:testops", COPILOT, ANSWER, pace),
        name="testops",
        tools=[tools, archivist.as_tool("ask_archivist")],
        limits=Limits(steps=8, model_calls=12, tool_calls=12),
        policy=policy,
    )


agent = rehearsal()
