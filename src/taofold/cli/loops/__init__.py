"""`taofold loop` (`start`) and `taofold loops …` (`commands`).

`dependencies` is what a loop of this project works with, `drive` runs it in front of a person.
"""
