"""Loops: an agent runs repeatedly until commands prove that the work is done.

`values`, `verdict`, `events` and `state` define a loop. `decisions` chooses the next move, `course`
detects a loop without progress, `iteration` writes a run's instructions. `driver` performs the
moves in an `environment` (a `workspace` with snapshots of `taofold.workspace`, and the `gates`),
with the lessons of a `learner`, recorded in a `stream`. `lifecycle` has the users' commands on
loops, `report` their output.
"""
