"""The runtime: drives strategies, performs effects, appends events.

`run` begins and carries on runs with what is in a `setup`. `drive` performs a strategy's effects:
what earlier lives did comes from the `recording`, what is new goes through `model_calls` and
`step_actions` (with `tool_calls`, `hooks`, `approvals`) within the `budget`, and is written through
the `ledger`. `endings` are how an activation ends, `ownership` is who drives. People reach runs by
`control` and the `inbox`, and rate them in `ratings`. `model` is the interface of models, which
`providers` finds by name.
"""
