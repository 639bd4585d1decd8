"""Runs that show everything a run can do, each to be cut at every event."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from taofold import Agent, Decision, Limits, Outcome, RunContext, tool
from taofold.core.effects import Answer, Strategy, ask, begin, fork, note, step
from taofold.core.effects import act as do
from taofold.core.errors import ModelError
from taofold.core.values import Action, Profile, Reply, Thought, ToolCall
from taofold.reasoning import Task
from taofold.reasoning.conversation import Talk

from .kit import Memo, act, batch, finish, yes


@dataclass
class World:
    """The effects of the tools, by effect id."""

    done: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: list[str] = field(default_factory=list[str])

    def copy(self) -> "World":
        return World(dict(self.done), list(self.calls))


@dataclass
class Story:
    """An agent with its world. `goal` starts it; `answer` is the reply to its questions."""

    name: str
    make: Callable[[World], Agent[Any, Any]]
    answer: Callable[[Any], Decision] = yes
    expect: str = "finished"
    ordered: bool = True
    """Do its steps come in one order only? Branches end when they end."""


def tools(world: World) -> list[Any]:
    @tool(effect="read", tier=1)
    async def look(what: str, ms: int = 0) -> str:
        """Look something up."""
        await asyncio.sleep(ms / 1000)
        return f"{what} has item_{len(what)}"

    @tool(effect="read", tier=1)
    def broken(what: str) -> str:
        """Fails."""
        raise ValueError(f"no {what} here")

    @tool(effect="idempotent", tier=2, reversible=True)
    def write(ctx: RunContext, name: str, text: str) -> Outcome:
        """Write a file."""
        world.calls.append(ctx.effect_id)
        world.done[ctx.effect_id] = text
        return Outcome(f"wrote {len(text)} to {name}", update=(name, text))

    def verify(effect_id: str) -> Any:
        return Outcome("paid") if effect_id in world.done else False

    @tool(effect="once", tier=3, verify=verify)
    def pay(ctx: RunContext, amount: int) -> str:
        """Pay."""
        assert ctx.effect_id not in world.done, "paid twice"
        world.calls.append(ctx.effect_id)
        world.done[ctx.effect_id] = amount
        return "paid"

    @tool(effect="once", tier=1, reversible=True, verify=verify)
    def mark(ctx: RunContext, text: str) -> str:
        """Leave a mark, once."""
        assert ctx.effect_id not in world.done, "marked twice"
        world.calls.append(ctx.effect_id)
        world.done[ctx.effect_id] = text
        return "paid"

    def count(state: dict[str, Any], args: dict[str, Any]) -> tuple[str, int]:
        """Count up."""
        return "count", state.get("count", 0) + args.get("by", 1)

    return [look, broken, write, pay, mark, tool(effect="read", tier=1)(count)]


def agent(world: World, script: list[Any], **options: Any) -> Agent[Any, Any]:
    model = options.pop("model", None) or Memo(script)
    return Agent(model, tools=options.pop("tools", None) or tools(world), **options)


def plain(world: World) -> Agent[Any, Any]:
    return agent(
        world,
        [act("look", what="cats"), act("look", "item_4 is there", what="dogs"), finish("two")],
    )


def corrected(world: World) -> Agent[Any, Any]:
    r1 = '{"action": {"tool": "look", "parameters": {"what": "x"}, "rationale": "r"}}'
    r2 = '{"thought": "only thinking", "thought_type": "reasoning"}'
    return agent(
        world,
        [
            '{"thought": "a", "action": {"tool": "look", "parameters": {"what": ',
            act("look", what="cats"),
            r1,
            r2,
            act("look", "fine now", what="mice"),
            act("look", "odd", "nonsense", what="rats"),
            act("look", "fine now", what="rats"),
            finish(),
        ],
        strict=True,
    )


def parallel(world: World) -> Agent[Any, Any]:
    return agent(
        world,
        [
            batch(
                ("look", {"what": "slow", "ms": 3}),
                ("mark", {"text": "here"}),
                ("nothing", {}),
                ("look", {"what": "quick"}),
                ("count", {"by": 2}),
                ("count", {"by": 3}),
            ),
            batch(("mark", {"text": "there"}), ("broken", {"what": "luck"})),
            finish(),
        ],
        limits=Limits(steps=8, tool_calls=20),
    )


def failing(world: World) -> Agent[Any, Any]:
    return agent(
        world,
        [
            act("broken", what="luck"),
            act("broken", "again, unchanged", "exception", what="luck"),
            act("look", "other way", "exception", what="cats"),
            act("missing_tool"),
            act("look", "bad arguments", "exception", wat=1),
            finish(),
        ],
    )


def updates(world: World) -> Agent[Any, Any]:
    return agent(world, [act("count"), act("count", by=5), act("mark", text="m"), finish("6")])


async def nod(request: Any) -> Decision:
    return (
        Decision("approve", by="boss")
        if request.action.tool != "ask_user"
        else Decision("allow", answer="blue")
    )


def callback(world: World) -> Agent[Any, Any]:
    script = [act("pay", amount=5), act("write", name="a.txt", text="hello"), finish()]
    return agent(world, script, approve=nod)


def parked(world: World) -> Agent[Any, Any]:
    return agent(
        world,
        [
            batch(
                ("look", {"what": "cats"}),
                ("pay", {"amount": 5}),
                ("write", {"name": "b", "text": "x"}),
                ("look", {"what": "after"}),
            ),
            act("pay", "again", amount=6),
            finish(),
        ],
    )


def edit_or_deny(request: Any) -> Decision:
    if request.action.tool == "write":
        return Decision("edit", parameters={"name": "c", "text": "edited"})
    if request.action.parameters.get("amount") == 6:
        return Decision("deny", reason="too much")
    return Decision("approve")


def asking(world: World) -> Agent[Any, Any]:
    return agent(
        world,
        [
            act("ask_user", question="Which colour?"),
            act("look", "blue it is", what="sky"),
            finish(),
        ],
        ask_user=True,
    )


def nested(world: World) -> Agent[Any, Any]:
    child = agent(
        world,
        [act("look", what="inner"), act("pay", amount=7), finish("from the child")],
        name="helper",
        description="Helps.",
    )
    other = agent(
        world, [act("mark", text="c2"), finish("second")], name="second", description="Helps too."
    )
    script = [
        batch(("helper", {"goal": "help"}), ("second", {"goal": "also"})),
        act("look", what="outer"),
        finish(),
    ]
    return Agent(Memo(script), tools=[child, other, *tools(world)])


def three_ways(task: Task) -> Strategy[Answer]:
    """A strategy with a fork in it: three looks at once, one of which forks again."""
    talk = Talk(task)
    yield from begin()
    yield from note("plan", parts=3)

    def way(number: int) -> Strategy[str]:
        mine = Talk(task)
        outlook = yield from begin()
        mine.open(outlook)
        mine.correct(Reply("way"), f"take way {number}")
        reply = yield from ask(mine.conversation)
        thought = Thought(f"way {number}: {reply.text}", "progress")
        observations = yield from do(
            thought,
            Action("look", {"what": "w" * (number + 1), "ms": 3 - number}),
            Action("mark", {"text": f"way {number}"}),
        )
        if number == 2:
            inner = yield from fork([way(5), way(6)])
            return f"{observations[0].result} and {inner}"
        yield from step(thought, "solve", observations[0].result)
        return str(observations[0].result)

    found = yield from fork([way(0), way(1), way(2)])
    talk.correct(Reply("ways"), f"found {found}")
    reply = yield from ask(talk.conversation)
    yield from step(Thought("together", "synthesis"), "synthesize", reply.text)
    return Answer(reply.text)


def forked(world: World) -> Agent[Any, Any]:
    def choose(request: Any) -> str:
        return f"said after {request.conversation[-1].content[:40]}"

    return agent(
        world,
        [],
        model=Memo(choose=choose),
        strategy=three_ways,
        limits=Limits(steps=30, tool_calls=40),
    )


def crowded(world: World) -> Agent[Any, Any]:
    script: list[Any] = [act("look", f"look {n}", what="x" * 300 + str(n)) for n in range(8)]
    script.insert(6, ModelError("too long", kind="overflow"))
    profile = Profile(window=1700, window_known=True)
    return agent(
        world, [], model=Memo([*script, finish()], profile=profile), limits=Limits(steps=20)
    )


def limited(world: World) -> Agent[Any, Any]:
    return agent(
        world,
        [
            batch(*[("look", {"what": f"n{n}"}) for n in range(4)]),
            batch(*[("look", {"what": f"m{n}"}) for n in range(4)]),
            finish("wrapped up"),
        ],
        limits=Limits.chat(),
    )


def stopped(world: World) -> Agent[Any, Any]:
    script = [*[act("look", what=what) for what in "abc"], "no JSON here {"]
    return agent(world, script, limits=Limits(steps=3))


def broke(world: World) -> Agent[Any, Any]:
    script = [act("look", what=f"n{n}") for n in range(9)]
    return agent(world, script, limits=Limits(usd=0.005, steps=9), max_tokens=2000)


def looping(world: World) -> Agent[Any, Any]:
    script = [act("look", what="same") for _ in range(5)]
    return agent(world, [*script, finish("gave up")], limits=Limits(steps=20))


def native(world: World) -> Agent[Any, Any]:
    def call(name: str, arguments: str, id: str) -> Reply:
        return Reply("I call it", calls=(ToolCall(name, arguments, id),), finish="tool_calls")

    replies = [
        call("look", '{"what": "cats"}', "c1"),
        call("mark", '{"text": "x', "c2"),
        call("mark", '{"text": "x"}', "c3"),
        call("finish", '{"answer": {"n": 3}}', "c4"),
    ]
    profile = Profile(window=100_000, window_known=True, native_tools=True)
    return agent(world, [], model=Memo(replies, profile=profile), output=dict[str, int])


def critical(world: World) -> Agent[Any, Any]:
    thought = (
        '{"thought": "data may be lost", "thought_type": "exception", "critical": true, '
        '"action": {"tool": "look", "parameters": {"what": "cats"}, "rationale": "r"}}'
    )
    return agent(world, [act("broken", what="x"), thought, finish()])


def provider_fails(world: World) -> Agent[Any, Any]:
    return agent(world, [act("look", what="cats"), ModelError("down", kind="server")])


STORIES = [
    Story("plain", plain),
    Story("corrected", corrected),
    Story("parallel", parallel),
    Story("failing", failing),
    Story("updates", updates),
    Story("callback", callback),
    Story("parked", parked),
    Story("edited", parked, edit_or_deny),
    Story("asking", asking),
    Story("nested", nested),
    Story("forked", forked, ordered=False),
    Story("crowded", crowded),
    Story("limited", limited, expect="limited"),
    Story("stopped", stopped, expect="limited"),
    Story("broke", broke, expect="limited"),
    Story("looping", looping, expect="limited"),
    Story("native", native),
    Story("critical", critical),
    Story("provider_fails", provider_fails, expect="failed"),
]
