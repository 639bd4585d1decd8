"""The command line. It is the only part of taofold that knows terminals.

`app` is the program. A verb is a function in the module of its group: `runs`, `loops`, `patterns`,
`serve`, `approvals` and so on; `file_commands` has `check`, `graph` and `init`. `project` finds the
configuration and the log, `agent_argument` makes the agent that an argument names, `render` shows
runs, `output` is what commands print and how they end.
"""

from taofold.cli.app import app, main

__all__ = ["app", "main"]
