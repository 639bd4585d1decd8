"""What loops learn from one another: patterns, and how good kinds of edits are.

`patterns` are the values, `events` the facts, `fold` what facts add up to, `book` the interface of
a store, `registry` the commands. The path of a lesson, from a finished run to a prompt:

1. `extraction.history` reads the attempts of a loop from its log.
2. `extraction.settled_errors` finds for each error the last change that held. `acts`, `silencing`,
   `comments` and `hosts` refuse or clean what another project's agent must not read.
3. `extraction.lessons` makes patterns of it, which `registry` merges with what it holds.
4. `injection` asks for the patterns of the next loop: `retrieval.index` finds them by words,
   `same_error` and `relevance` compare the errors, `choice` takes the best, `render` writes them.
5. `attribution` counts what came of them, and retires what does harm.

`rates` is the channel of search policies, `exchange` the files of the seed's layout, `loops` the
notes about each loop, `metrics` what learning was worth, `settings` the options. Pure: no clock, no
disk; a store is handed in.
"""
