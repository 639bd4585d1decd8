"""The gates of a loop: verdicts that an agent cannot influence.

`criteria` reads the commands that prove completion, `commands` plans their execution. `gate_files`
finds the files that decide in them, `hidden_checks` those that no command shows. `scope` selects
the changes that are part of the work (`inline_tests`: inside a source file), `work_diff` computes
the changes. `baseline` holds the state at the start (`baseline_capture` takes it), `tree` lays
fresh trees, `gate_run` runs a command there, `reports` parses its output, `expectations` compares
with the start (by `runner_ids`), `judge` combines all, and `verdict_texts` renders the verdict.
"""
