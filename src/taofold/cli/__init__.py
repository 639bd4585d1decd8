"""The command line. It is the only part of taofold that knows terminals.

`app` is the program. A verb is a function in the module of its group: `runs`, `loops`, `patterns`,
`serve`, `approvals` and so on. `project` finds the configuration and the log, `make_agent` makes an
agent of an argument, `render` shows runs, `outcome` says how commands end.
"""

from taofold.cli.app import app, main

__all__ = ["app", "main"]
