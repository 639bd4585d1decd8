"""The stored description of a run's agent: created once, equal in every run."""

from taofold import Agent, tool
from taofold.core.call_ids import IDENTITY
from taofold.core.events import RunStarted
from taofold.testing.models import ScriptedModel

SECRET = "correct-horse-battery"


@tool(effect="idempotent", tier=2)
def put(x: int) -> int:
    """Put x."""
    return x


@tool(effect="read")
def get(x: int) -> int:
    """Get x."""
    return x


def started(agent):
    event = agent.run_sync("g").records[0].event
    assert isinstance(event, RunStarted)
    return {name: kept for name, kept in event.settings.items() if name != IDENTITY}


def agent(**more):
    return Agent(ScriptedModel(["yes"] * 3), tools=[put, get], **more)


def test_instructions_are_kept_without_secrets():
    one = agent(instructions=f"use {SECRET} for it", secrets=[SECRET])
    assert started(one)["instructions"] == "use [redacted] for it"


def test_the_effects_of_tools_that_do_not_only_read_are_kept_in_every_run():
    one = agent()
    assert started(one) == started(one) == {"strict": False, "effects": {"put": "idempotent"}}


def test_a_changed_agent_keeps_what_it_is_now():
    one = agent(instructions="first")
    assert started(one)["instructions"] == "first"
    assert started(one.replace(instructions="second", research=True, strict=True)) == {
        "strict": True,
        "effects": {"put": "idempotent"},
        "research": True,
        "instructions": "second",
    }
