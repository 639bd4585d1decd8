"""The registry under the path that earlier releases documented."""

from taofold.log.patterns.stores import open_registry

__all__ = ["open_registry"]
