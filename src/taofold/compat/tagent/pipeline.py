"""TAgent's pipelines, which taofold does not have. Each name is an `ImportError` with a hint."""

from typing import Any

from taofold.compat.tagent import FLOWS


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(f"taofold.compat.tagent has no {name}: {FLOWS}")
