"""Scripted model replies for both programs of each page in docs/migration."""

import json
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Programs:
    """The two programs of a page: the other library's and taofold's."""

    page: str
    environment: str
    """The environment of the other library (`tests/environments`)."""
    script: str
    """The script of `tests/migration/scripts` that runs the other program."""
    replies: tuple[dict[str, Any], ...]
    """Replies to the other program: `tool` and `parameters`, or a `text`."""
    ours: tuple[str, ...]
    """Replies to the taofold program."""


def call(tool: str, **parameters: Any) -> dict[str, Any]:
    return {"tool": tool, "parameters": parameters}


def text(content: Any) -> dict[str, Any]:
    return {"text": content if isinstance(content, str) else json.dumps(content)}


def act(tool: str, **parameters: Any) -> str:
    return json.dumps({"thought": "Next.", "action": call(tool, **parameters)})


def decision(action: str, **params: Any) -> str:
    """Returns a reply in TAgent's own form."""
    return json.dumps({"action": action, "params": params})


PROGRAMS: Final = (
    Programs(
        "pydantic-ai.md", "mcp-clients", "with_pydantic_ai.py",
        (call("price", item="tea"), call("final_result", item="tea", euros=9.0)),
        (act("price", item="tea"), act("finish", answer={"item": "tea", "euros": 9.0})),
    ),
    Programs(
        "langgraph.md", "langchain", "with_langchain.py",
        (call("refund", order=7, euros=20.0), call("Receipt", order=7, euros=20.0)),
        (
            act("refund", order=7, euros=20.0),
            act("finish", answer={"order": 7, "euros": 20.0}),
        ),
    ),
    Programs(
        "openai-agents.md", "mcp-clients", "with_openai_agents.py",
        (
            call("transfer_to_orders"),
            call("order_state", order=7),
            text({"order": 7, "state": "shipped"}),
            text("You should not send that."),
        ),
        (
            act("transfer_to_orders"),
            act("order_state", order=7),
            act("finish", answer={"order": 7, "state": "shipped"}),
        ),
    ),
    Programs(
        "crewai.md", "crewai", "with_crewai.py",
        (
            text("Final Answer: Tea is a warm drink."),
            text(
                "Thought: I count.\nAction: count_words\n"
                'Action Input: {"text": "Tea is a warm drink."}'
            ),
            text('Thought: I know.\nFinal Answer: {"title": "Tea", "words": 5}'),
        ),
        (
            "Tea is a warm drink.",
            act("count_words", text="Tea is a warm drink."),
            act("finish", answer={"title": "Tea", "words": 5}),
        ),
    ),
    Programs(
        "tagent.md", "tagent", "with_tagent.py",
        (
            text(
                {
                    "tasks": [
                        {
                            "description": "Look it up.",
                            "tool_name": "fetch_weather",
                            "tool_args": {"city": "Oslo"},
                        }
                    ],
                    "strategy": "One look.",
                    "reasoning": "The table has it.",
                }
            ),
            text(
                {
                    "goal_achieved": True,
                    "reasoning": "It is known.",
                    "completed_tasks_analysis": "One.",
                    "failed_tasks_analysis": "None.",
                }
            ),
            text({"city": "Oslo", "degrees": 21}),
        ),
        (
            decision("execute", tool="fetch_weather", args={"city": "Oslo"}),
            decision("evaluate"),
            json.dumps({"achieved": True, "feedback": "", "missing": []}),
            json.dumps({"city": "Oslo", "degrees": 21}),
        ),
    ),
)  # fmt: skip
