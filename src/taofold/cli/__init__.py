"""The command line, the only part of taofold that uses a terminal.

`main` starts the program of `app`. Each command is a function in the module of its group: `runs`,
`loops`, `patterns`, `serve`, `approvals` and so on; `file_commands` has `check`, `graph` and
`init`. `project` finds the configuration and the log. `agent_argument` makes the agent of an
argument. `render` displays runs. `output` has the functions that print results, and the exit codes.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program and exits.

    Args:
        arguments: Arguments after the program's name. Default: those of the process.
    """
    if (sys.argv[1:] if arguments is None else [*arguments]) == ["--version"]:
        # Skips the command modules, whose import takes most of the start-up time.
        from taofold import __version__

        print(__version__)  # noqa: T201 - the program's own output
        return
    # Before the commands are imported, so that no module comes from the agents' work root.
    from taofold.trusted_code import seal

    seal()
    from taofold.cli.app import main as program

    program(arguments)
