"""taofold: agents you can trust, replay and teach. Names are loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from taofold.policy import Limits, Policy
    from taofold.runtime.control import cancel, decide, steer
    from taofold.runtime.hooks import (
        AddMessage,
        Hook,
        HookContext,
        InputGuard,
        OutputGuard,
        Reject,
        Replace,
    )
    from taofold.runtime.ratings import Rating, rate, ratings
    from taofold.runtime.setup import Approval, Decision
    from taofold.tools import Outcome, RunContext, Tool, Toolset, tool
    from taofold.tools.attachments import Audio, Document, Image
    from taofold.tools.toolset import register_custom_action

# Loaded at the first use of a name: `import taofold` alone stays a matter of milliseconds.
_HOME = {
    "Action": "core.values",
    "AddMessage": "runtime.hooks",
    "Agent": "agent",
    "Approval": "runtime.setup",
    "Audio": "tools.attachments",
    "cancel": "runtime.control",
    "ConfigError": "core.errors",
    "decide": "runtime.control",
    "Decision": "runtime.setup",
    "Delta": "agent",
    "Document": "tools.attachments",
    "Hook": "runtime.hooks",
    "HookContext": "runtime.hooks",
    "Image": "tools.attachments",
    "InputGuard": "runtime.hooks",
    "LimitReached": "core.errors",
    "Limits": "policy",
    "MemoryLog": "log.memory",
    "Message": "core.values",
    "Observation": "core.values",
    "open_log": "log.open",
    "Outcome": "tools",
    "OutputGuard": "runtime.hooks",
    "Policy": "policy",
    "Principal": "core.values",
    "Refused": "core.errors",
    "rate": "runtime.ratings",
    "Rating": "runtime.ratings",
    "ratings": "runtime.ratings",
    "register_custom_action": "tools.toolset",
    "Reject": "runtime.hooks",
    "Replace": "runtime.hooks",
    "ReplayDiverged": "core.errors",
    "run_agent": "compat.tagent",
    "RunContext": "tools",
    "RunFailed": "core.errors",
    "RunResult": "agent",
    "steer": "runtime.control",
    "Store": "log.run_store",
    "Stream": "agent",
    "Thought": "core.values",
    "Tier": "core.values",
    "Tool": "tools",
    "tool": "tools",
    "Toolset": "tools",
    "Usage": "core.values",
}

__version__ = "0.1.0"
__all__ = [
    "Action",
    "AddMessage",
    "Agent",
    "Approval",
    "Audio",
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


def __getattr__(name: str) -> Any:
    if name == "reason":
        return import_module("taofold.reason")
    if name in _HOME:
        value = getattr(import_module(f"taofold.{_HOME[name]}"), name)
        # The next access finds the name in the module and does not come here.
        globals()[name] = value
        return value
    raise AttributeError(f"module 'taofold' has no attribute {name!r}")


def __dir__() -> list[str]:
    # The public names, and the module's own attributes: not what it imports for itself.
    own = [name for name in globals() if name.startswith("__")]
    return sorted({*own, *__all__, "reason"})
