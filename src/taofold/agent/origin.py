"""References to agents in Python programs, so that another process can load the same agent."""

import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

ORIGIN: Final = "python"
"""Key in `RunStarted.settings` that names a program's agent: `agent` and `folder`."""


def origin_of(agent: Any) -> dict[str, str]:
    """Returns the reference `file.py:name` of an agent that the running program holds by a name.

    Only the program's own file is searched. Agents without a name in it, and agents of an
    interactive session, have no reference.
    """
    main = sys.modules.get("__main__")
    # `python -i FILE.py` removes `__file__` before the session begins.
    file: Any = getattr(main, "__file__", None) or sys.argv[0]
    if main is None:
        return {}
    for name, value in list(vars(main).items()):
        if value is agent and name.isidentifier() and (place := _place(file)) is not None:
            return {"agent": f"{place.name}:{name}", "folder": str(place.parent)}
    return {}


@cache
def _place(file: str) -> Path | None:
    """Returns the absolute path of a program's file, or None if it is not a Python file.

    Cached: a program that later changes its working directory keeps the first result.
    """
    path = Path(file)
    return path.absolute() if file.endswith(".py") and path.is_file() else None
