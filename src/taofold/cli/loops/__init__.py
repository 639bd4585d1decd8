"""`taofold loop` (`start`) and `taofold loops …` (`commands`).

`interview` asks a person what a loop needs to know, `drive` runs it in front of one.
"""
