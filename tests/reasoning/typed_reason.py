"""Checked by mypy and pyright, never run: the types of `taofold.reason`."""

from typing import assert_type

from pydantic import BaseModel

import taofold
from taofold import Agent, reason
from taofold.reason import Reasoned
from taofold.reasoning import Cot, Decompose, Plan, SelfCorrect, react


class City(BaseModel):
    name: str


async def users() -> None:
    assert_type(await reason.cot("x", model="m:x"), Reasoned[str])
    assert_type(await reason.plan("x", model="m:x", output=City, tools=[]), Reasoned[City])
    number = await taofold.reason.decompose("x", model="m:x", output=int, inner=Cot(format="tree"))
    assert_type(number.answer, int | None)
    Agent("m:x", strategy=SelfCorrect(inner=react))
    Agent("m:x", strategy=Decompose(inner=Plan()))
