"""The documented import path of actions for flows, for packages that provide them.

The implementations are in `taofold.files.actions`; this package only re-exports them.
"""

from taofold.files.actions import ActionCall as Call
from taofold.files.actions import Actions, Done, Keys, Kind, build_actions_registry

__all__ = ["Actions", "Call", "Done", "Keys", "Kind", "build_actions_registry"]


def __dir__() -> list[str]:
    return sorted(__all__)
