"""Runs in which something is unusual about the replies: refused, cut off, signed, too long."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from taofold import Agent, Limits, Outcome, tool
from taofold.core.content import Issuer, OpaquePart, TextPart, ThinkingPart, ToolCall
from taofold.core.errors import ModelError
from taofold.core.values import Profile, Reply
from taofold.reasoning import Cot, Decompose, Direct, Plan, SelfCorrect
from taofold.reasoning.strategy_actions import tagent
from tests.runtime.kit import Memo, act, batch, finish

J = json.dumps
MAKER = Issuer("anthropic", "https://api.example", "model-1")
NATIVE = Profile(window=100_000, window_known=True, native_tools=True, prefix_bound=True)
FORMED = Profile(window=100_000, window_known=True, json_schema=True)
SMALL = Profile(window=1200, window_known=True)


@tool(tier=1, effect="read")
def look(what: str, times: int = 1) -> Any:
    """Look at something."""
    if what.endswith("nothing"):
        raise ValueError("there is nothing to look at")
    if what == "keys":
        return {f"key{number}": number for number in range(12)}
    if what == "half":
        return Outcome("half of it", status="partial")
    return {"seen": [f"a {what}"] * times}


@tool(tier=1, effect="read")
def long(size: int) -> str:
    """Something long."""
    return "word " * size


@dataclass
class Point:
    """An answer with a type."""

    x: int
    y: int


@dataclass(frozen=True)
class Case:
    """An agent with scripted replies. `options` are the agent's."""

    replies: Sequence[Any]
    options: dict[str, Any]
    profile: Profile | None = None

    def agent(self) -> Agent[Any, Any]:
        model = Memo(self.replies, **({"profile": self.profile} if self.profile else {}))
        return Agent(model, **{"tools": [look, long], "limits": Limits(steps=12), **self.options})


def case(*replies: Any, profile: Profile | None = None, **options: Any) -> Case:
    return Case(replies, options, profile)


def call(
    name: str, id_: str, *, say: str = "", signed: bool = True, cut: bool = False, **given: Any
) -> Reply:
    """A native call, signed by its provider."""
    arguments = J(given)[: -4 if cut else None]
    parts: list[Any] = [ThinkingPart("I think"), OpaquePart('{"signature": "s"}', "thinking")]
    parts = parts if signed else []
    parts += [TextPart(say)] if say else []
    parts.append(ToolCall(name, arguments, id_))
    return Reply(parts=tuple(parts), finish="tool_calls", issuer=MAKER if signed else None)


def pause(text: str) -> Reply:
    return Reply(text, finish="pause", issuer=MAKER)


def plan(*tasks: dict[str, Any], thought: str = "this way") -> str:
    return J({"thought": thought, "tasks": list(tasks)})


def task(id_: str, tool_name: str = "look", depends: Sequence[str] = (), **args: Any) -> Any:
    return {"id": id_, "tool": tool_name, "args": args, "depends": list(depends)}


def again(number: int) -> str:
    """Another way to do a task, as futile as the first."""
    return J({"thought": "again", "tool": "look", "args": {"what": f"{number} nothing"}})


def verdict(achieved: bool, words: str = "") -> str:
    missing = [] if achieved else ["a source"]
    return J({"reasoning": "judged", "achieved": achieved, "feedback": words, "missing": missing})


def critique(score: Any, *issues: str) -> str:
    return J({"reasoning": "read", "score": score, "issues": list(issues)})


def parts_of_problem(*pairs: tuple[str, Sequence[str]]) -> str:
    parts = [{"id": i, "description": f"do {i}", "dependencies": list(d)} for i, d in pairs]
    return J({"reasoning": "split", "sub_problems": parts})


def thinking(answer: Any, why: str = "because") -> str:
    return J({"thinking": why, "answer": answer})


TYPED: dict[str, Any] = {"output": Point}
BROKEN = '{"thought": "I look", "action": {"tool": "look", "parameters": {"what": '
IN_BATCH = batch(("look", {"what": "a"}), ("finish", {"answer": "too early"}))
NO_RATIONALE = '{"thought": "I look", "action": {"tool": "look", "parameters": {"what": "a"}}}'
ROLE_PLAY = act("look", what="a") + "\nObservation: it is all done\nThought: so I am done"

REACT: dict[str, Case] = {
    "plain prose": case("The answer is forty-two."),
    "empty twice": case("", "  ", finish("x")),
    "three times unreadable": case(BROKEN, BROKEN, BROKEN),
    "a role played": case(ROLE_PLAY, finish("x")),
    "finish in a batch": case(IN_BATCH, finish("now")),
    "no rationale": case(NO_RATIONALE, finish("x")),
    "a failure and no exception": case(*[act("look", "try to see", what="nothing")] * 2,
                                       *[act("look", "try to see", what="a")] * 2,
                                       finish("x"), finish("x"), strict=True),
    "insisted on once": case(*[act("look", "see to it", "odd", what="a")] * 2,
                             finish("x"), finish("x"), strict=True),
    "a thought that is missing": case(act("look", "", what="a"), act("look", "", what="a"),
                                      finish("x"), finish("x"), strict=True),
    "research": case(act("look", "t", "research", what="a"), finish("x"), research=True),
    "a batch half read": case(J({"thought": "t", "actions": [
        {"tool": "look", "parameters": {"what": "a"}, "rationale": "r"},
        {"tool": "look", "parameters": [1], "rationale": "r"}]}), finish("x")),
    "two in a batch": case(batch(("look", {"what": "a"}), ("look", {"what": "nothing"})),
                           act("look", "why", "exception", what="b"), finish("x")),
    "withheld": case(Reply("some of it", finish="content_filter")),
    "refused with words": case(Reply("I do not do that.", finish="refusal")),
    "refused with notes": case(Reply("", finish="refusal", notes=("policy 7", "see the terms"))),
    "refused without words": case(Reply("", finish="refusal")),
    "malformed": case(Reply("", finish="malformed"), finish("x")),
    "cut off": case(Reply(BROKEN, finish="length"), finish("x")),
    "paused": case(pause("I look"), pause("and look"), finish("x")),
    "always paused": case(*[pause(f"part {n}") for n in range(40)]),
    "typed prose": case('{"x": 1, "y": 2}', **TYPED),
    "typed in words": case('It is {"x": 1, "y": 2}, I am sure.', **TYPED),
    "typed wrongly": case(finish({"x": "one", "y": 2}), finish({"x": 1}), finish({"x": 1, "y": 2}),
                          **TYPED),
    "typed as parameters": case(act("finish", "t", "synthesis", x=1, y=2), **TYPED),
    "typed and without an answer": case(act("finish"), act("finish"), act("finish"), **TYPED),
    "gave up": case(act("finish", "it cannot be", "exception", success=False, answer="no way")),
    "gave up typed": case(act("finish", "it cannot be", "exception", success=False), **TYPED),
    "gave up typed with words": case(
        act("finish", "t", "exception", success=False, answer="no way"), **TYPED),
    "schema": case(act("look", what="a"), finish({"x": 1, "y": 2}), profile=FORMED, **TYPED),
    "wrap-up refused once": case(act("look", what="a"), act("look", what="b"), finish("x"),
                                 limits=Limits(steps=2)),
    "wrap-up refused": case(act("look", what="a"), act("look", what="b"), act("look", what="c"),
                            act("look", what="d"), limits=Limits(steps=2)),
    "wrap-up after tools": case(act("look", what="a"), act("look", what="b"), act("look", what="c"),
                                finish("x"), limits=Limits(tool_calls=1)),
    "wrap-up without tools": case("{", "{", "{", tools=[], limits=Limits(steps=1), **TYPED),
    "folded": case(*[act("long", f"step {n}", size=150 + n) for n in range(7)], finish("x"),
                   profile=SMALL),
    "folded lines": case(*[batch(*[("long", {"size": 60 + n + m}) for m in range(9)])
                           for n in range(7)], finish("x"), profile=Profile(4000, True)),
    "overflow and nothing to fold": case(ModelError("too long", kind="overflow")),
    "asks": case(act("ask_user", question="which?"), finish("x"), ask_user=True),
    "provider fails": case(ModelError("down", kind="server")),
    "history": case(finish("x"), instructions="  Be brief.  "),
}  # fmt: skip
"""ReAct over text."""

CALLS: dict[str, Case] = {
    "native": case(call("look", "c1", what="a"), call("look", "c2", say="and", what="nothing"),
                   Reply("It is a.", issuer=MAKER), profile=NATIVE),
    "native unsigned": case(call("look", "c1", signed=False, what="a"), Reply("So."),
                            profile=NATIVE),
    "native typed": case(call("look", "c1", what="a"), call("finish", "c2", answer={"x": 1}),
                         call("finish", "c3", answer={"x": 1, "y": 2}), profile=NATIVE, **TYPED),
    "native cut off": case(call("look", "c1", cut=True, what="abcdef"),
                           call("look", "c2", signed=False, cut=True, what="abcdef"),
                           Reply("So."), profile=NATIVE),
    "native at the limit": case(call("look", "c1", what="a"), call("look", "c2", what="b"),
                                Reply("So."), profile=NATIVE, limits=Limits(steps=2)),
    "native typed at the limit": case(call("look", "c1", what="a"), call("look", "c2", what="b"),
                                      call("finish", "c3", x=1, y=2), profile=NATIVE,
                                      limits=Limits(steps=2), **TYPED),
    "native thinking, unreadable": case(
        Reply(parts=(ThinkingPart("hm"), OpaquePart('{"s": 1}', "thinking")), issuer=MAKER),
        Reply(parts=(ThinkingPart("hm", "reasoning_content"), TextPart("x" * 3000)), issuer=MAKER),
        call("finish", "c1", answer={"x": 1, "y": 2}), profile=NATIVE, **TYPED),
    "native paused": case(pause("a"), call("look", "c1", what="a"), Reply("So."), profile=NATIVE),
    "native refusal with a call": case(
        Reply(parts=(TextPart("no"), ToolCall("look", '{"what": "a"}', "c1")), finish="refusal"),
        Reply("So."), profile=NATIVE),
}  # fmt: skip
"""ReAct over native calls."""

WAVES = plan(task("t1", what="a"), task("t2", what="b"), task("t3", "look", ["t1", "t2"], what="c"))
FAILS = plan(task("t1", what="nothing"), task("t2", what="{{ t1.output.seen }}"))
RETRY = J({"thought": "another", "tool": "look", "args": {"what": "b"}})
GIVE_UP = J({"thought": "no way", "tool": "", "args": {}, "give_up": True})
FAR = "{{ t1.output.seen.7 }} {{ t1.output.key1 }}"

PLANS: dict[str, Case] = {
    "plan": case(WAVES, verdict(True), "done", strategy=Plan()),
    "plan rejected": case(plan(task("t1", what="a")), verdict(False, "more"),
                          plan(task("t2", what="b")), verdict(True), "done", strategy=Plan()),
    "plan without end": case(*[one for n in range(9) for one in
                               (plan(task(f"t{n}", what=f"{n}")), verdict(False, f"no {n}"))],
                             strategy=Plan()),
    "plan in circles": case(plan(task("t1", what="a")), verdict(False), plan(task("t2", what="a")),
                            plan(task("t3", what="a")), plan(task("t4", what="a")), verdict(False),
                            "?", "?", strategy=Plan()),
    "plan with a wrong tool": case(plan(task("t1", "fly")), plan(task("t1", what="a")),
                                   verdict(True), "done", strategy=Plan()),
    "plan with a circle": case(plan(task("a", "look", ["b"], what="x"),
                                    task("b", "look", ["a"], what="y")),
                               plan(task("a", "look", ["z"], what="x")),
                               plan(task("a", what="x"), task("a", what="y")), strategy=Plan()),
    "plan that nobody can read": case("?", "{", "[]", strategy=Plan()),
    "plan with an id that has a result": case(
        plan(task("t1", what="a")), verdict(False), plan(task("t1", what="b")),
        plan(task("t2", what="{{ t1.output.seen.0 }}")), verdict(True), "done", strategy=Plan()),
    "task that fails and is retried": case(FAILS, RETRY, RETRY, verdict(True), "done", "x",
                                           strategy=Plan()),
    "task that is given up": case(FAILS, GIVE_UP, verdict(True), "done", strategy=Plan()),
    "task that fails always": case(FAILS, *map(again, range(3)), GIVE_UP, GIVE_UP, verdict(True),
                                   "done", "x", strategy=Plan()),
    "a reference to nowhere": case(
        plan(task("t1", what="keys"), task("t2", what=FAR),
             task("t3", what="{{ t1.output.nokey }}")), GIVE_UP, GIVE_UP,
        verdict(True), "done", strategy=Plan()),
    "half is enough": case(plan(task("t1", what="half"), task("t2", what="{{ t1.output }}")),
                           verdict(True), "done", strategy=Plan()),
    "empty plan": case(plan(thought="nothing to do"), verdict(True), "done", strategy=Plan()),
    "long results": case(plan(*[task(f"t{n}", "long", size=300 + n) for n in range(6)]),
                         verdict(True), "done", strategy=Plan(), profile=Profile(4000, True)),
    "evaluator that nobody can read": case(plan(task("t1", what="a")), "?", "?", "?",
                                           plan(task("t2", what="b")), verdict(True), "done",
                                           strategy=Plan()),
    "typed final answer": case(plan(task("t1", what="a")), verdict(True), "?", '{"x": 1}',
                               '{"x": 1, "y": 2}', strategy=Plan(), **TYPED),
    "plan at the limit": case(WAVES, verdict(False, "no"), "as far as it came", "?",
                              strategy=Plan(), limits=Limits(steps=3)),
    "plan and few calls": case(WAVES, verdict(False, "no"), "as far", strategy=Plan(),
                               limits=Limits(model_calls=3)),
    "plan and few tools": case(WAVES, "as far", "as far", strategy=Plan(),
                               limits=Limits(tool_calls=2)),
}  # fmt: skip
"""Plan and act."""

SYSTEM: dict[str, Any] = {"strategy": tagent}
AB = parts_of_problem(("a", ()), ("b", ("a",)))

OTHERS: dict[str, Case] = {
    "direct": case("Forty-two.", strategy=Direct()),
    "direct typed": case("?", '{"x": 1, "y": 2}', strategy=Direct(), **TYPED),
    "direct unreadable": case("?" * 300, "?", "!" * 300, strategy=Direct(), **TYPED),
    "direct cut off": case(Reply('{"x": 1, "y"', finish="length"), '{"x": 1, "y": 2}',
                           strategy=Direct(), **TYPED),
    "direct refused": case(Reply("no", finish="refusal"), strategy=Direct()),
    "direct paused": case(pause("For"), "ty-two", strategy=Direct()),
    "direct signed": case(
        Reply(parts=(ThinkingPart("hm"), OpaquePart("{}", "thinking"), TextPart("?")),
              issuer=MAKER), '{"x": 1, "y": 2}', strategy=Direct(), **TYPED),
    "cot": case(thinking("x"), strategy=Cot()),
    "cot typed": case(thinking("x"), thinking({"x": 1}), thinking({"x": 1, "y": 2}),
                      strategy=Cot(), **TYPED),
    "cot in prose": case("I think so.\nAnswer: 42", strategy=Cot()),
    "cot bare": case("42", "42", "42", strategy=Cot(), **TYPED),
    "cot without thinking": case(J({"answer": "x"}), J({"thinking": "", "answer": "x"}),
                                 thinking("x"), strategy=Cot()),
    "cot with examples": case(thinking("x"), strategy=Cot(
        examples=[{"problem": "1+1", "thinking": "add", "answer": "2"}])),
    "cot with a schema": case(thinking({"x": 1, "y": 2}), strategy=Cot(), profile=FORMED, **TYPED),
    "cot refused": case(Reply("", finish="content_filter"), strategy=Cot()),
    "cot overflow": case(ModelError("long", kind="overflow"), strategy=Cot()),
    "corrected": case("v0", critique(0.3, "dull"), "v1", critique(0.9), strategy=SelfCorrect()),
    "corrected to the end": case("v0", critique(0.3, "dull"), "v1", critique(0.2, "worse"), "v2",
                                 critique(0.1, "worst"), strategy=SelfCorrect()),
    "good at once": case("v0", critique(1.0), strategy=SelfCorrect()),
    "a critic that nobody can read": case("v0", "?", critique(7), "?", strategy=SelfCorrect()),
    "a reviser that refuses": case("v0", critique(0.3, "dull"), Reply("no", finish="refusal"),
                                   strategy=SelfCorrect()),
    "a draft that is refused": case(Reply("no", finish="refusal"), strategy=SelfCorrect()),
    "corrected at the limit": case("v0", critique(0.3, "dull"), "v1", "x", strategy=SelfCorrect(),
                                   limits=Limits(steps=3)),
    "corrected, typed": case('{"x": 1, "y": 2}', critique(0.5, "x"), '{"x": 2, "y": 2}',
                             critique(0.9), strategy=SelfCorrect(rounds=1), **TYPED),
    "split": case(AB, thinking("1"), thinking("2"), "together",
                  strategy=Decompose(max_depth=1)),
    "split wrongly": case("?", parts_of_problem(("a", ("a",))), AB, thinking("1"), thinking("2"),
                          "together", strategy=Decompose(max_depth=1)),
    "split never": case("?", "?", "?", thinking("whole"), strategy=Decompose(max_depth=1)),
    "split into one": case(parts_of_problem(("a", ())), thinking("1"), thinking("2"), "x",
                           strategy=Decompose(max_depth=1)),
    "split into too many": case(parts_of_problem(*[(f"p{n}", ()) for n in range(12)]), AB,
                                thinking("1"), thinking("2"), "x", strategy=Decompose(max_depth=1)),
    "a part that fails": case(AB, "?", "?", "?", thinking("2"), "together", "x", "y",
                              strategy=Decompose(max_depth=1)),
    "split at the limit": case(AB, thinking("1"), thinking("2"), "x", "y",
                               strategy=Decompose(max_depth=1), limits=Limits(steps=2)),
    "split, typed": case(AB, thinking("1"), thinking("2"), "?", '{"x": 1, "y": 2}',
                         strategy=Decompose(max_depth=1), **TYPED),
    "own actions": case(act("plan"), J({"steps": ["look"]}), act("look", what="a"),
                        act("evaluate"), verdict(False, "more"), act("summarize"), "a sum",
                        act("evaluate"), verdict(True), "the end", **SYSTEM),
    "own actions given and beside": case(act("plan", steps=["one", "two"]),
                                         batch(("evaluate", {}), ("look", {"what": "a"})),
                                         finish("x"), **SYSTEM),
    "own actions unreadable": case(act("plan"), "?", "?", "?", act("evaluate"), "?", "?", "?",
                                   act("summarize"), Reply("", finish="refusal"), finish("x"),
                                   **SYSTEM),
    "rejected three times": case(*[one for n in range(3) for one in
                                   (act("evaluate", f"t{n}"), verdict(False, f"no {n}"))],
                                 **SYSTEM),
}  # fmt: skip
"""The techniques without tools, and TAgent's own actions."""

CASES: dict[str, Case] = {**REACT, **CALLS, **PLANS, **OTHERS}
