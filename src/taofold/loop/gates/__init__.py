"""The gates of a loop: how a verdict is reached where an agent cannot reach it.

`criteria` reads the commands that prove completion, `commands` how each is run, `gate_files` which
files they decide by, `hidden_checks` those that no command shows. `scope` says which changes are
part of the work (`inline_tests`: what of a source file), `work_diff` finds those that were made.
`baseline` holds what was at the start (`baseline_capture` takes it), `tree` lays fresh trees,
`gate_run` runs a command there, `reports` reads what it printed, `expectations` compares with the
start (by `runner_ids`), `judge` puts it together, and `verdict_texts` words it.
"""
