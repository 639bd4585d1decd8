"""Where a Python program holds an agent, so that another process can make the same one again."""

import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

ORIGIN: Final = "python"
"""The key of `RunStarted.settings` that names the agent of a program: `agent` and `folder`."""


def origin_of(agent: Any) -> dict[str, str]:
    """Returns the reference `file.py:name` of an agent that the running program holds by a name.

    Only the program's own file is looked at. An agent that it holds nowhere, and one of an
    interactive session, have no reference.
    """
    main = sys.modules.get("__main__")
    # `python -i FILE.py` takes `__file__` away before the session begins.
    file: Any = getattr(main, "__file__", None) or sys.argv[0]
    if main is None:
        return {}
    for name, value in list(vars(main).items()):
        if value is agent and name.isidentifier() and (place := _place(file)) is not None:
            return {"agent": f"{place.name}:{name}", "folder": str(place.parent)}
    return {}


@cache
def _place(file: str) -> Path | None:
    """Returns where a program's own file lies, None if it is no Python file.

    It is looked for once: a program that goes to another folder later keeps its place.
    """
    path = Path(file)
    return path.absolute() if file.endswith(".py") and path.is_file() else None
