"""Commands `taofold loop` (`start`) and `taofold loops …` (`commands`).

`dependencies` provides the log, agent and environment of a loop. `drive` runs it at a terminal.
"""
