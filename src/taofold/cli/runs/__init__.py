"""Commands `taofold run` and `taofold runs …`.

`drive` has `run` and drives any run at the terminal. `read` has the commands that only read,
`change` those that change runs, `travel` those about earlier steps, `exchange` export, import,
backup and migration. `find` resolves a RUN argument. `render` displays runs.
"""
