"""Why an action cannot even be ruled on: unreadable, of no known tool, or guessed.

It knows nothing about what was called before, nor what the policy says of the call.
"""

from taofold.core.values import Action, Observation, Tier
from taofold.policy import Facts
from taofold.runtime.setup import Setup
from taofold.tools import Tool


def unfit(setup: Setup, action: Action, tool: Tool | None) -> Observation | None:
    """The answer to an action that is none; None if it can be ruled on."""
    if action.error:
        return Observation(action.error, "failure", refused="malformed")
    if tool is None:
        names = ", ".join(sorted(setup.tools.names)) or "none"
        text = f"unknown tool {action.tool!r}; available tools: {names}"
        return Observation(text, "failure", refused="unknown")
    if action.guessed and _matters(setup, tool):
        repairs = ", ".join(action.repairs)
        text = (
            f"the parameters of {action.tool} were not well-formed ({repairs}) and it must "
            "not run on guessed parameters: send the action again, exactly"
        )
        return Observation(text, "failure", refused="guessed")
    return None


def facts(tool: Tool) -> Facts:
    """What the policy needs to know of `tool`."""
    return Facts(tool.tier, tool.effect, tool.role, tool.definition)


def _matters(setup: Setup, tool: Tool) -> bool:
    """Is a guess about its parameters one too many?"""
    once = tool.effect == "once" or (tool.agent is not None and tool.effect != "read")
    return once or setup.policy.tier(tool.name, facts(tool)) >= Tier.CONFIRM
