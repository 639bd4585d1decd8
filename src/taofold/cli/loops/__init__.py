"""`taofold loop` (`start`) and `taofold loops …` (`commands`).

`drive` runs a loop in front of a person.
"""
