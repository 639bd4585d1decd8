"""What loops learn from one another: patterns, and how good kinds of edits are.

`patterns` are the values, `events` the facts, `fold` what facts add up to, `book` who keeps it,
`registry` what may be done, `injection` what a loop is told. `extraction` reads what a finished
loop teaches, `retrieval` chooses what the next one is told, `attribution` counts what came of it,
`rates` is the channel of search policies, `exchange` the files of the seed's layout. `loops` are
the notes that are kept of each, `metrics` say what learning was worth, `settings` what may be set.
Pure: no clock, no disk; a store is handed in.
"""
