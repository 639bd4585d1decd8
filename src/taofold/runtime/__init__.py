"""The runtime: drives strategies, performs effects, appends events.

`run` starts and resumes runs, with the objects in a `setup`. `drive` performs a strategy's effects:
recorded results come from the `recording`; new ones go through `model_calls` and `step_actions`
(with `tool_calls`, `hooks`, `approvals`) within the `allowance`, and are written to the `ledger`.
`endings` defines the ends of an activation, `ownership` the leases. Users reach runs by `control`
and the `inbox`, and rate them in `ratings`. `model` is the interface of models, which `providers`
finds by name.
"""
