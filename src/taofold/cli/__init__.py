"""The command line. It is the only part of taofold that knows terminals.

`main` starts the program, which is `app`. A verb is a function in the module of its group: `runs`,
`loops`, `patterns`, `serve`, `approvals` and so on; `file_commands` has `check`, `graph` and
`init`. `project` finds the configuration and the log, `agent_argument` makes the agent that an
argument names, `render` shows runs, `output` is what commands print and how they end.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit.

    Args:
        arguments: What stands behind the program's name; default: those of the process.
    """
    if (sys.argv[1:] if arguments is None else [*arguments]) == ["--version"]:
        # Without the commands, whose modules take most of the time of a start.
        from taofold import __version__

        print(__version__)  # noqa: T201 - the program's own output
        return
    # Before the commands are loaded: no module comes from the folder that agents work in.
    from taofold.trusted_code import seal

    seal()
    from taofold.cli.app import main as program

    program(arguments)
