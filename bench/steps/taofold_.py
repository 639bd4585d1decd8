"""taofold as a contestant in this benchmark and the wider one (docs/internals/benchmarks.md).

Variants: `agent` (the tool is called on the event loop, as the floor and the peers do),
`agent+thread` (the default for sync tools: a worker thread, so that a slow one does not stop
the loop), `agent+sqlite` (the default log in a file), `agent+listener` (streaming to a
callback instead of an async iterator).
"""

from pathlib import Path

import common
from common import SYSTEM, call_json, final_text, prompt, steps_of, stream_prompt

from taofold import Agent, Limits, tool
from taofold.core.values import Profile, Reply, ToolCall
from taofold.testing.models import FunctionModel

VARIANTS = {
    "agent": {"fake": True, "http": True, "stream": True},
    "agent+thread": {"fake": True, "http": True},
    "agent+sqlite": {"fake": True, "persist": True},
    "agent+listener": {"http": True, "stream": True},
}
IMPORT = {"agent": "from taofold import Agent"}
_PROFILE = Profile(window=10**9, native_tools=True, streaming=True)


def answer(request):
    conversation = request.conversation
    turn, steps = (len(conversation) - 2) // 2, steps_of(conversation[1].content)
    if turn == steps - 1:
        return Reply(final_text(steps))
    return Reply(calls=(ToolCall("add", call_json(turn), f"call_{turn}"),))


def _gated(gate):
    async def wait(reply):
        await gate()
        return reply

    def ask(request):
        reply = answer(request)
        return reply if reply.calls else wait(reply)

    return ask


def _model(mode, base_url, gate):
    if mode == "fake":
        return FunctionModel(answer if gate is None else _gated(gate), profile=_PROFILE)
    from taofold.models.presets import compatible

    return compatible("fake", base_url=base_url, api_key="x", profile=_PROFILE)


class Contestant:
    def __init__(self, agent, variant):
        self.agent, self.talker = agent, agent.replace(tools=())
        self.variant = variant


def build(n_steps, mode, variant="agent", base_url="", path=None, gate=None, **_):
    log = None
    if variant == "agent+sqlite":
        from taofold.log.sqlite.log import SqliteLog

        log = SqliteLog(Path(path) / "taofold.db")
    agent = Agent(
        _model(mode, base_url, gate),
        tools=[tool(common.add, effect="read", thread=variant == "agent+thread")],
        instructions=SYSTEM,
        limits=Limits(steps=n_steps + 1, tool_calls=None, model_calls=None, seconds=None),
        log=log,
    )
    return Contestant(agent, variant)


def run(contestant, n_steps):
    return contestant.agent.run_sync(prompt(n_steps)).output


async def arun(contestant, n_steps):
    result = await contestant.agent.run(prompt(n_steps))
    return result.output if result.success else f"{result.stop_reason}: {result.error}"


async def astream(contestant, n_tokens, on_text):
    from taofold import Delta

    def hear(happening):
        if type(happening) is Delta:
            on_text(happening.text)

    talker, goal = contestant.talker, stream_prompt(n_tokens)
    if contestant.variant == "agent+listener":
        await talker.run(goal, listener=hear)
    else:
        async for happening in talker.stream(goal):
            hear(happening)


async def aclose(contestant):
    if contestant.agent.log is not None:
        await contestant.agent.log.close()
    else:
        from taofold.models.transport import aclose_all

        await aclose_all()
