"""How this very program is called: for the commands that a person is told to type."""

import shutil
import sys
from pathlib import Path
from shlex import quote


def invocation() -> str:
    """How a shell calls this very program, from any folder."""
    me = Path(sys.argv[0]).absolute()
    if me.name != "taofold" or not me.is_file():
        return f"{quote(sys.executable)} -m taofold.cli"
    found = shutil.which("taofold")
    return "taofold" if found and me.samefile(found) else quote(str(me))
