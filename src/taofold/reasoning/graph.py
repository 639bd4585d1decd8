"""Dependencies between named parts: in which waves they can be done. Pure."""

from collections.abc import Iterable, Mapping, Sequence


class Tangle(ValueError):
    """The parts cannot be ordered. `kind` is duplicate_id, unknown_dependency or cycle."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def waves(parts: Sequence[tuple[str, Iterable[str]]], known: Iterable[str] = ()) -> list[list[str]]:
    """The ids in waves: each depends only on earlier waves; listing order within a wave.

    Args:
        parts: ids with the ids that they depend on, in any order.
        known: ids that exist already.

    Raises:
        Tangle: an id occurs twice, a dependency does not exist, or there is a cycle.
    """
    needs: dict[str, set[str]] = {}
    for id_, before in parts:
        if id_ in needs:
            raise Tangle("duplicate_id", f"the id {id_!r} is used twice: give each its own")
        needs[id_] = set(before)
    done = set(known) - needs.keys()
    for id_, before in needs.items():
        unknown = sorted(before - needs.keys() - done)
        if unknown:
            have = ", ".join(map(repr, [*needs, *sorted(done)]))
            raise Tangle(
                "unknown_dependency", f"{id_!r} depends on {unknown[0]!r}; there is only {have}"
            )
    found: list[list[str]] = []
    while needs:
        wave = [id_ for id_, before in needs.items() if before <= done]
        if not wave:
            raise Tangle("cycle", f"the dependencies run in a circle: {_circle(needs, done)}")
        found.append(wave)
        done.update(wave)
        for id_ in wave:
            del needs[id_]
    return found


def _circle(needs: Mapping[str, set[str]], done: set[str]) -> str:
    """One of the circles, as a → b → a."""
    path = [next(iter(needs))]
    while True:
        following = next(id_ for id_ in sorted(needs[path[-1]] - done))
        if following in path:
            return " → ".join([*path[path.index(following) :], following])
        path.append(following)
