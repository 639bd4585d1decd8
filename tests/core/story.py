"""Tells a log in few words: one method per kind of event, one second apart."""

from typing import Any

from taofold.core import events as e
from taofold.core.values import Action, Observation, Thought, Usage


class Story:
    def __init__(self, goal: str = "do it", **started: Any) -> None:
        self.records: list[e.Record] = []
        self.turn = 0
        self.put(e.RunStarted(goal=goal, **started))

    def put(self, event: e.Event) -> "Story":
        seq = len(self.records)
        self.records.append(e.Record("r1", seq, 1000 * (seq + 1), event))
        return self

    def think(self, thought: Thought | str, *actions: Action, key: str = "") -> str:
        if isinstance(thought, str):
            thought = Thought(thought)
        self.turn += 1
        key = key or str(self.turn)
        self.put(e.Proposed(key=key, thought=thought, actions=actions))
        return key

    def start(self, key: str, index: int = 0, effect: str = "") -> "Story":
        if effect:
            return self.put(e.StartedOnce(key=key, index=index, effect=effect))
        return self.put(e.Started(key=key, index=index))

    def see(self, key: str, observation: Observation, index: int = 0) -> "Story":
        return self.put(e.Observed(key=key, index=index, observation=observation))

    def step(
        self,
        thought: Thought | str = "find out why it is so",
        tool: str = "look",
        result: Any = "nothing special",
        status: Any = "success",
        refused: str = "",
        effect: str = "",
        rationale: str = "to see",
        key: str = "",
        **parameters: Any,
    ) -> "Story":
        action = Action(tool, parameters, rationale)
        key = self.think(thought, action, key=key)
        if not refused:
            self.start(key, effect=effect)
        seen = Observation(result, status, extraction="x", duration_ms=5.0, refused=refused)
        return self.see(key, seen)

    def reply(self, text: str = "", model: str = "m", key: str = "", **usage: Any) -> "Story":
        event = e.Replied(
            key=key or f"{self.turn}",
            prompt="p",
            content=text,
            model=model,
            usage=Usage(**usage),
            ms=7.0,
        )
        return self.put(event)

    def finish(self, output: Any = "done", success: bool = True) -> "Story":
        return self.put(
            e.RunFinished(
                status="finished", stop_reason="final_answer", success=success, output=output
            )
        )
