"""What a node of a flow may do: a registry of named actions, ours and other people's.

An action is a schema of its keys and a generator of effects, so it runs on the same log as
everything else. Knows nothing about YAML, templates or files.
"""

from taofold.files.actions.kind import ActionCall, Done, Keys, Kind
from taofold.files.actions.registry import Actions, build_actions_registry

__all__ = ["ActionCall", "Actions", "Done", "Keys", "Kind", "build_actions_registry"]
