"""The documented names of what a package needs that brings actions to flows.

They live in `taofold.files.actions`; this package knows nothing of its own.
"""

from taofold.files.actions import ActionCall as Call
from taofold.files.actions import Actions, Done, Keys, Kind, build_actions_registry

__all__ = ["Actions", "Call", "Done", "Keys", "Kind", "build_actions_registry"]
