"""Runs the conformance kit of `conformance/` with this runtime and writes the expected files.

`python -m tests.conformance_kit` renews the expected files: review the difference before you commit
it. The kit is data, independent of a language; docs/log-format.md describes the files.
"""

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgspec
from ruamel.yaml import YAML

from taofold import Agent, Decision
from taofold.cli.agent_argument import with_model
from taofold.core.events import Annotation, Event, Happened, Record, decode
from taofold.core.json_values import plain
from taofold.core.state import RunState, fold
from taofold.core.vague_text import lacks_intent, lacks_reason
from taofold.core.values import Action, Observation, Profile, Thought, Usage, Value
from taofold.files import Config, build, read_agent
from taofold.files.expressions.condition import Condition
from taofold.files.expressions.template import Template, Unrenderable
from taofold.log.formats import ndjson, react_json, tao_yaml
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.runtime.control import cancel, children, decide, pending, steer
from taofold.testing.models import ScriptedModel

KIT: Final = Path(__file__).parents[1] / "conformance"
EVENTS: Final[tuple[type[Happened], ...]] = get_args(Event)
UNCOMPARED: Final = frozenset(
    {
        *("at", "elapsed", "duration_ms", "ms", "prompt", "prefix", "policy", "digest", "settings"),
        *("profile", "principal", "usage", "strategy_version", "agent", "model", "session"),
        *("preview", "thinking_format", "detail", "owner", "runtime", "deciders", "expires_at"),
        "models",
    }
)
"""Keys that another runtime may fill otherwise: times, digests of its prompts, its own settings,
tokens by the names of models."""
Json = dict[str, Any]


def compared(value: Any) -> Any:
    """JSON without the keys that no other runtime need agree on."""
    if isinstance(value, dict):
        # The id of a message is made by chance.
        left_out = UNCOMPARED | ({"id"} if value.get("e") == "steered" else set())
        return {key: compared(inner) for key, inner in value.items() if key not in left_out}
    if isinstance(value, list):
        return [compared(inner) for inner in value]
    return value


def cases() -> list[Path]:
    return sorted(path.parent for path in KIT.glob("runs/*/case.json"))


def documents() -> list[Path]:
    return sorted(KIT.glob("tao/*.yaml"))


def foldings() -> list[Path]:
    return sorted(KIT.glob("folding/*.json"))


def performed(case: Path) -> dict[str, Any]:
    """The files that a run of the case comes to, by name."""
    script = json.loads((case / "case.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / case.name
        shutil.copytree(case, folder)
        file, faults = read_agent(folder / "flow.yaml", root=folder)
        assert file is not None, faults
        agent = with_model(build(file, Config(), folder), ScriptedModel(script["replies"]))
        log = MemoryLog()
        agent = agent.replace(strict=script.get("strict", False), log=log)
        agent.run_sync(script["goal"], data=script["data"], run_id="r1")
        for acts in script.get("people", ()):
            asyncio.run(_go_on(agent, log, acts))
        records = asyncio.run(log.read("r1"))
        called = {
            run: events_of(asyncio.run(log.read(run))) for run in asyncio.run(children(log, "r1"))
        }
    state = fold(records)
    outcome = {
        "status": state.status,
        "stop_reason": state.stop_reason,
        "success": state.success,
        "output": state.output,
        "state": dict(state.data),
    }
    return {
        "events.json": events_of(records),
        "result.json": compared(json.loads(json.dumps(outcome))),
        "trace.json": json.loads(react_json.dumps(records)),
        "iterations.json": [compared(each) for each in iterations(tao_yaml.dumps(records))],
        **({"children.json": called} if called else {}),
    }


def events_of(records: list[Record]) -> list[Json]:
    """The events of a run, as far as they are compared."""
    lines = [json.loads(line) for line in ndjson.dumps(records).splitlines()[1:]]
    return [compared(line["event"]) for line in lines]


async def _go_on(agent: Agent[Any, Any], log: Log, acts: list[Json]) -> None:
    """Does what people do while the run waits, then resumes it, unless they cancelled it.

    A decision is about the first question that is open then.
    """
    open_questions = await pending(log, "r1")
    for act in acts:
        if "steer" in act:
            await steer(log, "r1", act["steer"])
        elif "cancel" in act:
            await cancel(log, "r1")
            return
        else:
            verdict = {"allow": "approve"}.get(act["decide"], act["decide"])
            decision = Decision(
                verdict, reason=act.get("reason", ""), parameters=act.get("parameters")
            )
            await decide(log, open_questions.pop(0).id, decision)
    await agent.resume("r1")


def iterations(text: str) -> list[Json]:
    """The iterations of a `ralph_tao_log`, without the times that no two runs share."""
    log = YAML(typ="safe").load(text)["ralph_tao_log"]

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(inner) for key, inner in value.items() if key != "timestamp"}
        return [timeless(inner) for inner in value] if isinstance(value, list) else value

    found: list[Json] = timeless(log["iterations"])
    return found


def taken_in(log: Path) -> list[Json]:
    """The events of a TAO document in the form of the AIWG rules."""
    records = tao_yaml.loads(log.read_text(encoding="utf-8"), run="imported")
    return [json.loads(line)["event"] for line in ndjson.dumps(records).splitlines()[1:]]


def state_json(state: RunState) -> Json:
    """A state as the kit writes it: every field, the start left to the log."""
    raw: Json = {
        name: plain(getattr(state, name))
        for name in state.__struct_fields__
        if name not in ("started", "steps", "open", "heard")
    }
    raw["steps"] = [json.loads(json.dumps(plain(step))) for step in state.steps]
    raw["open"] = sorted(state.open)
    raw["heard"] = [message.text for message in state.heard]
    return raw


def records_of(folding: Path) -> list[Record]:
    raw = json.loads(folding.read_text(encoding="utf-8"))
    return [
        Record("run", line["seq"], line["at"], decode(json.dumps(line["event"])))
        for line in raw["records"]
    ]


def folded(folding: Path) -> list[Json]:
    """The state after each record."""
    records = records_of(folding)
    return [state_json(fold(records[: n + 1])) for n in range(len(records))]


def tag_of(kind: type[Happened]) -> str:
    return str(kind.__struct_config__.tag)


def event_kinds() -> Json:
    """Returns the properties of each kind that a reader needs besides its fields."""
    return {
        tag_of(kind): {"timed": kind.timed, "annotation": issubclass(kind, Annotation)}
        for kind in EVENTS
    }


VALUES: Final[dict[str, type[Value]]] = {
    "thought": Thought,
    "action": Action,
    "observation": Observation,
    "usage": Usage,
}
"""The values in events, by the names that the kit has for them."""


def defaults() -> Json:
    """Returns the fields of values that an event may omit, with their defaults."""
    return {name: _defaults_of(kind) for name, kind in VALUES.items()}


def _defaults_of(kind: type[Value]) -> Json:
    defaults: Json = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = field.default_factory()
        elif field.default is not msgspec.NODEFAULT:
            defaults[field.name] = field.default
    read: Json = msgspec.json.decode(msgspec.json.encode(defaults))
    return read


TEXTS: Final = (
    "…",
    "\u200b",
    "Looking\u200b at the code.",
    "",
    "the TTL is 60 seconds",
    "3 errors, v 3.14, 7",
    "see src/auth/config.ts:42",
    "./a_b/c.py",
    "t.py::TestX::test_y",
    "it said \"token expired\" and 'bad luck', `x y`, “u v”, «w z», ‘s t’",
    "don't say it's so",
    "e.g. this, i.e. n/a",
    "camelCase but not Capital, HTTP but not A",
    "x86_64 and utf8",
    "std::vector, a::b, ::c",
    "plain words only, well-known",
    "v1.25, 1.2.3, .5, x12.34, 12.",
    "Größe_2, ÄÖÜ, naïve, 数値42",
    "\"open and 'never closed",
    '"" \'\' `a` "a"b"',
    "'tis, rock'n'roll and 'a b'c",
    'a\n"over\nlines" and (12)',
    "__init__ _a a_ _ -x- a-b-1 a.b",
    "Looking at the code.",
    "OK, let’s look at the logs…",
    "I'll now run the tests!",
    "Next: checking things",
    "I should check the config file.",
    "I read the configuration of the server.",
    "I want to open the file.",
    "I go to the next one.",
    "I read the configuration to find the token's lifetime.",
    "It needs to be seen.",
    "The test fails, so I read it.",
    "I look for the file for now.",
    "Ich sehe mir den Code an.",
    "Got the result",
    "The word " + "w " * 500,
    "9" * 201 + " " + "x1" * 101 + ' "' + "q" * 81 + '"',
)
"""Texts of thoughts, ordinary and odd."""


def texts() -> list[Json]:
    """Returns how a strict run judges texts: their aim and their reason."""
    return [
        {
            "text": text,
            "lacks_intent": lacks_intent(text),
            "lacks_reason": lacks_reason(text),
        }
        for text in TEXTS
    ]


VARIABLES: Final[Json] = {
    "state": {
        "n": 3, "share": 0.5, "list": [1, 2], "text": "a long text", "none": None, "yes": True,
        "no": False, "empty": [], "d": {"items": 3, "get": "g", "k": [{"v": 1}]},
    },
}  # fmt: skip
CONDITIONS: Final = (
    "state.n > 2 and 'long' in state.text",
    "{{ state.n > 2 }}",
    "state.n == 3 and not state.empty or false",
    "state['n'] in (3, 4) and state.n not in [4, 5]",
    "1 < state.n < 10 and not 1 < state.n == 4",
    "0 <= state.share <= 1",
    "state.d.k[0].v == 1 and state['d']['k'][0]['v'] == 1",
    "state.d.items == 3 and state.d.get == 'g'",
    "state.list[-1] == 2 and state.text[0] == 'a'",
    "state.list == [1, 2] and state.list[0:1] == [1]",
    "'n' in state and 'gone' not in state",
    "state.none is None and state.none is none and state.none is null and null is none",
    "state.none == None and state.n is not None",
    "state.yes is True and state.yes is true and state.no is False and state.no is not true",
    "state.yes == True and state.no == false",
    "state.none",
    "state.empty",
    "''",
    "0",
    "state.list",
    "'yes' if state.no else ''",
    "-state.n < 0 and state.n * 2 - 1 == 5 and state.n // 2 == 1 and state.n % 2 and 7 / 2 == 3.5",
    "2 ** 3 == 8 and 1 == 1.0 and 'a' + 'b' == 'ab' and 'a' * 3 == 'aaa' and [1] + [2] == [1, 2]",
    "state.n == '3'",
    "len(state.list) == 2 and len(state.text) == 11 and len(state.d) == 3",
    "get(state, 'gone') is null and get(state, 'gone', 4) == 4 and get(null, 'gone') is null",
    "state.get('n') == 3 and state.get('gone') is none and state.get('gone', 1) == 1",
    "startswith(lower('ABC'), 'a') and endswith('abc', 'c') and upper('a') == 'A'",
    "state.text.startswith('a') and state.text.endswith('t') and state.text.upper() != state.text",
    "' a '.strip() == 'a' and 'A'.lower() == 'a' and 'a,b'.split(',') == ['a', 'b']",
    "max(state.n, 2) == 3 and min(state.list) == 1 and abs(-2) == 2",
    "round(2.5) == 2 and round(3.5) == 4 and round(2.567, 1) == 2.6",
    "int('5') == 5 and int(2.9) == 2 and int(-2.9) == -2 and float('0.5') == state.share",
    "str(state.n) == '3' and str(state.yes) == 'true' and str(state.text) == state.text",
    "any(state.list) and not any([]) and all([]) and not all([0, 1])",
    "'n' in state.keys() and 3 in state.values()",
    "state.text | upper == 'A LONG TEXT' and state.list | length == 2",
    "state.gone | default(3) == 3 and state.gone is not defined and state.n is defined",
    "state.n is odd and state.text is string",
    "state.gone",
    "state.gone.deeper",
    "state.gone is none",
    "state.gone is not None",
    "state.gone is not true",
    "not state.gone",
    "state.gone or state.n",
    "state.n or state.gone",
    "state.n > 9 and state.gone",
    "len(state.gone)",
    "len(3)",
    "any(state.gone)",
    "max(state.gone, 1)",
    "max([])",
    "int('x')",
    "state.list[9]",
    "state.text.format(1)",
    "state.list.append(3)",
    "nosuch(1)",
    "gone > 1",
    "state.n / 0",
    "state.n <",
    "state.n = 3",
    "lambda: 1",
    "",
)
"""Conditions that a file may hold, and some that it may not."""


def conditions() -> Json:
    """Returns whether conditions hold; None for one that is refused."""
    return {
        "variables": VARIABLES,
        "rows": [{"condition": text, "holds": _holds(text)} for text in CONDITIONS],
    }


def _holds(text: str) -> bool | None:
    try:
        return Condition(text).holds(VARIABLES)
    except Unrenderable:
        return None


TEMPLATES: Final = (
    "plain",
    "{{ state.list }}",
    " {{ state.d }} ",
    "n is {{ state.n }}, {{ state.yes }}, {{ state.none }}, {{ state.list }}, {{ state.share }}",
    "{{ state.n / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 // -2 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }}",
    "{{ 'a' ~ 1 ~ none ~ [1, 'b'] }}",
    "{{ {'a': 1, 'b': [true, null]} | tojson }}",
    "{{ {'a': [1]} | tojson(indent=2) }}",
    "{% for v in state.list %}{{ loop.index }}/{{ loop.length }}: {{ v }}\n{% endfor %}\nend\n",
    "  {% if state.yes %}\n  yes\n  {% elif state.no %}\n  no\n  {% else %}\n  ?\n  {% endif %}\n",
    "a\n  {%- if true -%}\n  b  {%- endif +%}\nc {#- x -#} d",
    "{% for k, v in {'b': 1, 'a': [2]} | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for v in [1, 2, 3, 4] if v is even %}{{ v }}{{ ',' if not loop.last else '' }}{% endfor %}",
    "{% for v in state.empty %}{{ v }}{% else %}none{% endfor %}",
    "{% raw %}{{ x }}{% endraw %}",
    "{{ state.text | upper | truncate(6) }}",
    "{{ 'a long text of words' | truncate(12) }}",
    "{{ 'a long text of words' | truncate(12, true, '…', 0) }}",
    "{{ ['a', 'B'] | map('upper') | join(',') }}",
    "{{ [{'a': {'b': 1}}, 2] | map(attribute='a.b', default=0) }}",
    "{{ ['x', none] | map('default', 'd', true) }} {{ [[1, 2], [3]] | map('length') }}",
    "{{ [{'n': 1}, {'n': 5}, {}] | selectattr('n', 'gt', 2) | map('n') }}",
    "{{ [{'n': 1}, {'n': 5}, {}] | selectattr('n', 'defined') | selectattr('n', '!=', 5) }}",
    "{{ [{'n': 1}, {'n': 5}] | rejectattr('n', 'equalto', 5) }}",
    "{{ [{'n': 'a'}] | selectattr('n', 'a') }}",
    "{{ [{'p': 2}, {'p': 3.5}] | sum(attribute='p') }} {{ [1] | sum(start=2) }}",
    "{{ [{'p': 'x'}, {'p': 'y'}] | join('+', 'p') }} {{ 'aaa' | replace('a', 'b', 2) }}",
    "{{ ['b', 'A', 'c'] | sort }}",
    "{{ ['b', 'A'] | sort(case_sensitive=true) }} {{ ['a', 'A'] | unique }}",
    "{{ '3.7' | int }}",
    "{{ 'x' | int(4) }} {{ '' | default('x', boolean=true) }} {{ '--a-' | trim('-') }}",
    "{{ 2.31 | round(1, 'ceil') }} {{ 2.39 | round(1, 'floor') }} {{ 2.5 | round(method='ceil') }}",
    "{{ 'ab cd' | title }} {{ 'aB' | capitalize }} {{ 'ab' | replace('b', 'c') }}",
    "{{ [3, 1, 2] | sort }} {{ [3, 1] | sort(reverse=true) }} {{ [1, 1.0, 1] | unique }}",
    "{{ [{'a': {'b': 2}}, {}] | map('a.b') }} {{ [{'a': 1}, {'a': 2}] | selectattr('a', 2) }}",
    "{{ [1, 2, 3] | join(', ') }} {{ [1, 2.5] | sum }} {{ 'abc' | reverse }} {{ 'a\nb' | lines }}",
    "{{ 'a\nb' | indent(2) }} {{ 2.5 | round }} {{ 2.567 | round(1) }} {{ '7' | int }}",
    "{{ 'abcd'[1:3] }} {{ [1, 2, 3][::-1] }} {{ 'abc'[-1] }} {{ state.list.0 }}",
    "{{ range(3) | list }} {{ range(5, 1, -2) | list }}",
    "{{ 'it\\'s' }} {{ \"\\u00e9\\n\" | length }} {{ 1_000 }} {{ 1e3 }}",
    "{{ state.gone | default('x') }} {{ state.empty | default('y', true) }}",
    "{{ state.gone }}",
    "{{ [state.gone] }}",
    "{{ 1 if state.no }}",
    "{{ 1 < 'a' }}",
    "{{ 3 * 'a' }}",
    "{{ {'a': 1} + {} }}",
    "{{ 'a'.encode() }}",
    # Far too much: each is refused before the memory or the time is taken.
    "{{ 'a' * 10**10 }}",
    "{{ 'a' * 1048577 }}",
    "{{ range(10**12) | list }}",
    "{{ range(100000) | list | length }}",
    "{{ [0] * 10**8 }}",
    "{{ ([0] * 10**8) | length }}",
    "{{ [[0] * 1000] * 100000 }}",
    "{{ [['a' * 1000000] * 1000] * 1000 }}",
    "{{ str([[0] * 10**8] * 10**8) }}",
    "{{ any([0] * 10**8) or 1 in [0] * 10**8 }}",
    "x{{ [[0] * 10**8] * 10**8 == [[0] * 10**8] * 10**8 }}",
    "{{ ([[0] * 10**8] * 10**8) | tojson }}",
    "{{ (['a' * 1000000] * 1000) | join }}",
    "{{ ([([[1] * 900] | join) * 900] | join) * 900 }}",
    "{{ ('a' * 1000000) | replace('', 'b' * 1000) }}",
    "{{ ('a\n' * 500000) | indent(100) }}",
    "{{ 'a' | indent(10**9) }}",
    "{{ [1] | tojson(indent=10**9) }}",
    "{{ ('a' * 1000000) ~ ('a' * 1000000) }}",
    "{{ [['a' * 1000000], ['a' * 1000000]] }}",
    "{{ 2 ** 100000 }}",
    "{{ 2.0 ** 100000 }}",
    "{{ 1e308 * 10 }}",
    "{{ 1e999 }}",
    "{{ 1.5 | round(10**9) }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
    "{% for a in range(1000) %}{{ 'a' * 100000 }}{% endfor %}",
    "{{ " + "(" * 100 + "1" + ")" * 100 + " }}",
    "{{ " + "not " * 300 + "1 }}",
    "{{ " + "-" * 300 + "1 }}",
    "{{ 1" + "+1" * 300 + " }}",
    "{{ 1" + "|string" * 300 + " }}",
    "{{ state" + ".a" * 300 + " }}",
    "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
    "{% if 1 %}" * 120 + "{% endif %}" * 120,
    "{{ 1 }}" * 4000,
    # No part of the language.
    "{{ int('3.7') }}",
    "{{ [1] | sum(2) }}",
    "{{ [{'n': 1}] | selectattr('n', 'gt', 'x') }}",
    "{{ 2 | round(0, 'up') }}",
    "{% set x, y = 1, 2 %}{{ x }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% include 'a' %}",
    "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% with a = 1 %}{{ a }}{% endwith %}",
    "{% filter upper %}a{% endfilter %}",
    "{{ 'a' | center(10**9) }}",
    "{{ nosuch(1) }}",
    "{{ 1 is nosuch }}",
    "{{ len }}",
    "{{ state.__class__ }}",
    "{{ state.n",
    "{{ 'a }}",
    "{% if 1 %}",
    "{{ (1] }}",
)
"""Templates that a file may hold, and some that it may not."""


def templates() -> Json:
    """Returns what templates give, and where the others are refused: in the file or in the run."""
    return {"variables": VARIABLES, "rows": [_rendered(text) for text in TEMPLATES]}


def _rendered(text: str) -> Json:
    try:
        template = Template(text)
    except Unrenderable:
        return {"template": text, "refused": "file"}
    try:
        return {"template": text, "gives": template.render(VARIABLES)}
    except Unrenderable:
        return {"template": text, "refused": "run"}


def annotated() -> Json:
    """A log with one record of each kind that leaves the state as it is, or is in no other log."""
    examples: dict[Any, Any] = {str: "text", int: 1, float: 1.5, bool: True, tuple[int, ...]: [1]}
    examples[Usage] = {"input_tokens": 30, "output_tokens": 4, "usd": 0.25}
    examples |= {tuple[str, ...]: ["text"], tuple[tuple[str, int], ...]: [["0", 1]]}
    examples[dict[str, Any] | None] = examples[dict[str, Any]] = {"a": 1}
    examples[Profile] = {}
    events: list[Json] = [{"e": "run_started", "goal": "go"}]
    logs = [folding for folding in foldings() if folding.stem != "annotations"]
    shown = {record.event.tag for folding in logs for record in records_of(folding)}
    for kind in EVENTS:
        if issubclass(kind, Annotation) or tag_of(kind) not in shown:
            hints = get_type_hints(kind)
            fields = [name for name in kind.__struct_fields__ if name != "elapsed"]
            example = {name: "0" if name == "key" else examples[hints[name]] for name in fields}
            events.append({"e": tag_of(kind), **example})
    return {
        "about": "Each kind of event that leaves the state as it is, or is in no other log here.",
        "records": [
            {"seq": seq, "at": 1769337000000 + 100 * seq, "event": event}
            for seq, event in enumerate(events)
        ],
    }


def dump(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    for case in cases():
        for name, value in performed(case).items():
            dump(case / name, value)
    for document in documents():
        dump(document.with_suffix(".events.json"), taken_in(document))
    dump(KIT / "events.json", event_kinds())
    dump(KIT / "defaults.json", defaults())
    dump(KIT / "texts.json", texts())
    dump(KIT / "conditions.json", conditions())
    dump(KIT / "templates.json", templates())
    dump(KIT / "folding" / "annotations.json", annotated())
    for folding in foldings():
        raw = json.loads(folding.read_text(encoding="utf-8"))
        dump(folding, {**raw, "states": folded(folding)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
