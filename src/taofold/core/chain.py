"""The steps of a run as an immutable sequence that grows at constant cost."""

from collections.abc import Iterator, Sequence
from typing import overload

from taofold.core.values import Step


class Chain(Sequence[Step]):
    """An immutable view of the first `len(self)` steps of a shared append-only list."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Step] | None = None, length: int = 0) -> None:
        self._items: list[Step] = [] if items is None else items
        self._length = length

    def plus(self, step: Step) -> "Chain":
        """The chain with `step` at its end; `self` stays as it is."""
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items.append(step)
        return Chain(items, self._length + 1)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        if isinstance(index, slice):
            return self._items[: self._length][index]
        if index < -self._length or index >= self._length:
            raise IndexError(index)
        return self._items[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Step]:
        for position in range(self._length):
            yield self._items[position]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Chain({list(self)!r})"
