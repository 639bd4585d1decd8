"""Values of ours as plain JSON, for whoever shows them."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from taofold.log.formats.fields import is_list, is_mapping


def plain(value: Any) -> Any:
    """A value of ours as plain JSON, with the fields that hold their default."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if is_mapping(value):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple) or is_list(value):
        return [plain(one) for one in cast("Iterable[Any]", value)]
    return value
