"""The Edge Agent's name for the module of its reasoning actions: ours are in `files/actions`.

An alias for who looks here; it knows nothing of its own.
"""

from taofold.files.actions import build_actions_registry

__all__ = ["build_actions_registry"]
