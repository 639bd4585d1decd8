"""The registry under the path that earlier releases documented."""

from taofold.log.registry.registry import open_registry

__all__ = ["open_registry"]
