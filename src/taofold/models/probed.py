"""Profiles of models that `taofold doctor MODEL` measured, stored in the operator's folder.

A profile belongs to a model at one server, because another server may serve another model under the
same name. Later uses of that model there have this profile by default.
"""

import json
from typing import Any, Final

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.values import Profile
from taofold.network import bare_url
from taofold.reserved_places import make_folder, operator_folder, read_file, write_file

PROFILES: Final = "profiles.json"


def probed_profile(model: str, server: str) -> Profile | None:
    """Returns the profile of `provider:model` at the base URL `server`, or None if not measured.

    Raises:
        ConfigError: The file cannot be read, or this entry is damaged.
    """
    measured = _read().get(_key(model, server))
    if measured is None:
        return None
    try:
        return msgspec.convert(measured.get("profile"), Profile)
    except (msgspec.ValidationError, AttributeError) as error:
        path = str(operator_folder() / PROFILES)
        raise ConfigError(f"the profile of {model!r} is damaged: {error}", path=path) from error


def keep_profile(model: str, server: str, profile: Profile, at: str) -> str:
    """Writes the profile of `provider:model` at the base URL `server`. Returns the file's path."""
    folder = operator_folder()
    make_folder(folder)
    path = folder / PROFILES
    entry = {"probed_at": at, "profile": msgspec.structs.asdict(profile)}
    content = {**_read(), _key(model, server): entry}
    write_file(path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())
    return str(path)


def _key(model: str, server: str) -> str:
    # Without user name, password and query, because an address may contain a key.
    return f"{model} at {bare_url(server).rstrip('/')}"


def _read() -> dict[str, Any]:
    path = operator_folder() / PROFILES
    try:
        content: Any = json.loads(read_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot be read: {error}; delete it or mend it", path=str(path)
        ) from error
    return content if is_object(content) else {}
