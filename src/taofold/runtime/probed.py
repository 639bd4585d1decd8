"""What `taofold doctor MODEL` found out about models, kept in the operator's folder.

Every later `provider:model` gets the profile that was probed, unless it is given one.
"""

import json
import os
from typing import Any, Final

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.values import Profile
from taofold.places.reserved import operator_folder
from taofold.store.fields import is_mapping

NAME: Final = "profiles.json"


def known(model: str) -> Profile | None:
    """The profile of `provider:model`, None if it was never probed."""
    said = _read().get(model)
    if said is None:
        return None
    try:
        return msgspec.convert(said.get("profile"), Profile)
    except (msgspec.ValidationError, AttributeError) as error:
        path = str(operator_folder() / NAME)
        raise ConfigError(f"the profile of {model!r} is damaged: {error}", path=path) from error


def keep(model: str, profile: Profile, at: str) -> str:
    """Write the profile; the file's path is returned."""
    folder = operator_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    told = {**_read(), model: {"probed_at": at, "profile": msgspec.structs.asdict(profile)}}
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    fresh.replace(path)
    return str(path)


def _read() -> dict[str, Any]:
    path = operator_folder() / NAME
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot be read: {error}; delete it or mend it", path=str(path)
        ) from error
    return said if is_mapping(said) else {}
