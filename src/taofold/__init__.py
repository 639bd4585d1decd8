"""taofold: agents you can trust, replay and teach. Names are loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taofold.lazy_names import lazy_names

if TYPE_CHECKING:
    from taofold import reason as reason
    from taofold.agent import Agent, Delta, RunResult, Stream
    from taofold.compat.tagent import run_agent
    from taofold.core.errors import ConfigError, LimitReached, Refused, ReplayDiverged, RunFailed
    from taofold.core.values import (
        Action,
        Message,
        Observation,
        Principal,
        Thought,
        Tier,
        Usage,
    )
    from taofold.log.memory import MemoryLog
    from taofold.log.open import open_log
    from taofold.log.run_store import Store
    from taofold.memory import Memory
    from taofold.policy import Budget, Limits, Policy
    from taofold.runtime.control import cancel, decide, steer
    from taofold.runtime.hooks import (
        AddMessage,
        ChangeRequest,
        Hook,
        HookContext,
        InputGuard,
        OutputGuard,
        Reject,
        Replace,
        ReplaceArguments,
    )
    from taofold.runtime.ratings import Rating, rate, ratings
    from taofold.runtime.setup import Approval, Decision
    from taofold.tools import Outcome, RunContext, Tool, Toolset, tool
    from taofold.tools.attachments import Audio, Document, Image
    from taofold.tools.toolset import register_custom_action


__version__ = "0.1.0"
__all__ = [
    "Action",
    "AddMessage",
    "Agent",
    "Approval",
    "Audio",
    "Budget",
    "ChangeRequest",
    "ConfigError",
    "Decision",
    "Delta",
    "Document",
    "Hook",
    "HookContext",
    "Image",
    "InputGuard",
    "LimitReached",
    "Limits",
    "Memory",
    "MemoryLog",
    "Message",
    "Observation",
    "Outcome",
    "OutputGuard",
    "Policy",
    "Principal",
    "Rating",
    "Refused",
    "Reject",
    "Replace",
    "ReplaceArguments",
    "ReplayDiverged",
    "RunContext",
    "RunFailed",
    "RunResult",
    "Store",
    "Stream",
    "Thought",
    "Tier",
    "Tool",
    "Toolset",
    "Usage",
    "cancel",
    "decide",
    "open_log",
    "rate",
    "ratings",
    "register_custom_action",
    "run_agent",
    "steer",
    "tool",
]


# `import taofold` alone stays a matter of milliseconds.
_load = lazy_names(
    __name__,
    {
        "agent": "Agent Delta RunResult Stream",
        "compat.tagent": "run_agent",
        "core.errors": "ConfigError LimitReached Refused ReplayDiverged RunFailed",
        "core.values": "Action Message Observation Principal Thought Tier Usage",
        "log.memory": "MemoryLog",
        "log.open": "open_log",
        "log.run_store": "Store",
        "memory": "Memory",
        "policy": "Budget Limits Policy",
        "runtime.control": "cancel decide steer",
        "runtime.hooks": (
            "AddMessage ChangeRequest Hook HookContext InputGuard OutputGuard Reject Replace "
            "ReplaceArguments"
        ),
        "runtime.ratings": "Rating rate ratings",
        "runtime.setup": "Approval Decision",
        "tools": "Outcome RunContext Tool Toolset tool",
        "tools.attachments": "Audio Document Image",
        "tools.toolset": "register_custom_action",
    },
)


def __getattr__(name: str) -> Any:
    return import_module("taofold.reason") if name == "reason" else _load(name)


def __dir__() -> list[str]:
    # The public names, and the module's own attributes: not what it imports for itself.
    own = [name for name in globals() if name.startswith("__")]
    return sorted({*own, *__all__, "reason"})
