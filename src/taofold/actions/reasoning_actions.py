"""Alias of the reasoning actions in `files/actions`, under the Edge Agent's module name."""

from taofold.files.actions import build_actions_registry

__all__ = ["build_actions_registry"]
