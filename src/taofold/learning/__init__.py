"""Learning between loops: patterns, and success rates of kinds of edits.

`patterns` has the values, `events` the facts, `fold` computes the state from facts, `book` is the
interface of a store, `registry` has the commands. The path of a lesson, from a finished run to a
prompt:

1. `extraction.history` reads the attempts of a loop from its log.
2. `extraction.settled_errors` finds for each error the last change that held. `acts`, `silencing`,
   `comments` and `hosts` refuse or clean text that another project's agent must not read.
3. `extraction.lessons` makes patterns of the changes, which `registry` merges with known ones.
4. `injection` selects the patterns of the next loop: `retrieval.index` finds them by words,
   `same_error` and `relevance` compare the errors, `choice` takes the best, `render` writes them.
5. `attribution` counts the outcomes, and retires harmful patterns.

`rates` serves search policies, `exchange` reads and writes the exported files, `loops` has the
notes about each loop, `metrics` the benefit of learning, `settings` the options. Pure: no clock, no
disk; the caller passes a store.
"""
