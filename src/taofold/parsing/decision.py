"""Reads a decision out of a JSON-like object or a call found in text: thought, actions.

Arguments are typed by the schemas of the tools. What might be a parameter of the call is never left
out silently. It finds no calls itself: it is given them and objects, and gives calls and remarks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from taofold.core.json_values import is_array, is_object
from taofold.parsing.jsonlike.strict import decoded
from taofold.parsing.markup.calls import RawCall
from taofold.parsing.markup.tags import elements_in
from taofold.parsing.outcome import Call, Remark, Repair, Turn
from taofold.parsing.schema.coercion import Coercion, Misfit
from taofold.parsing.schema.reading_plan import ANY, TypeShape, fold, plan_of_schema
from taofold.parsing.schema.scalars import LooseText, TaggedText, same
from taofold.parsing.spans import object_in

THOUGHT_KEYS = ("thought", "reasoning", "thoughts", "thinking", "reflection")
TOOL_KEYS = ("tool", "name", "tool_name", "function", "function_name", "action", "recipient_name")
PARAMETER_KEYS = (
    "parameters", "params", "arguments", "args", "action_input", "input", "tool_input",
    "kwargs",
)  # fmt: skip
BATCH_KEYS = ("actions", "tool_calls", "calls", "tool_uses")
CALL_KEYS = ("function_call", "functionCall", "tool_call", "function")
ANSWER_KEYS = ("final_answer", "answer")
GENERIC_ACTIONS = frozenset({"execute", "call", "call_tool", "use_tool", "tool", "tool_call"})
FINISH = "finish"
_NOTES = ("rationale", "justification", "thought_type", "because", "confidence", "critical")
_SAID = frozenset([*THOUGHT_KEYS, *_NOTES, "tool_call_id"])
"""What is said about a call, never to its tool."""
ENVELOPE = _SAID.union(TOOL_KEYS, PARAMETER_KEYS, BATCH_KEYS, ANSWER_KEYS, ("id", "type"))
DECISIVE = frozenset(
    {"action", "actions", "tool", "tool_calls", "thought", "tool_name", "tool_uses", "final_answer"}
)
"""Keys that no data has beside itself: an object with one of them is a decision."""
_FORMS = GENERIC_ACTIONS | {"function", "function_call", "tool_use", "action"}
"""Values of `type` and of a second name that only say that this is a call."""
_THOUGHTS = frozenset(
    ["goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"]
)
_CLAIMS = frozenset({"id", "tier", "approved"})
"""Beside parameters these speak of the call and its clearance; nothing heeds the latter."""
_NUMBERED = ("call_", "call-", "toolu_", "fc_")


class GivenParameters(NamedTuple):
    """What an object gives as the parameters of its call.

    Attributes:
        parameters: As written.
        inline: Whether they stood beside the name instead of under a key of their own.
        doubtful: Whether some of it may be meant otherwise.
    """

    parameters: Any
    inline: bool = False
    doubtful: bool = False


def given_in(
    item: dict[str, Any], used: str, name: str, around: dict[str, Any] | None
) -> GivenParameters:
    """What an object gives as the parameters of its call.

    Args:
        item: The object.
        used: Its key that holds the name of the tool.
        name: That name.
        around: The object that holds it, asked only if the object itself gives nothing.
    """
    keys = [key for key in PARAMETER_KEYS if key in item and key != used]
    inline = {k: v for k, v in item.items() if k != used and _is_parameter(k, v, name, item)}
    filled = [key for key in keys if not _is_empty(item[key])]
    if filled or (keys and not inline):
        # The first key that holds something: an empty `"parameters"` may
        # stand beside a full `"args"`.
        chosen = item[(filled or keys)[0]]
        outer = [(around or {}).get(key) for key in PARAMETER_KEYS]
        rivals: list[Any] = [key for key in filled[1:] if item[key] != chosen]
        rivals += [each for each in outer if each not in (item, chosen) and not _is_empty(each)]
        rivals += [key for key in inline if key not in _CLAIMS and not _is_empty(inline[key])]
        return GivenParameters(chosen, doubtful=bool(rivals))
    if not inline and around is not None:
        # `{"action": {"tool": "x"}, "parameters": {…}}`: the arguments stand
        # beside the call's object.
        others = {key: value for key, value in around.items() if value is not item}
        beside = given_in(others, "", name, None)
        if beside.inline:  # what stands there without a key of its own may be no parameter
            is_empty = all(map(_is_empty, beside.parameters.values()))
            return GivenParameters({}, doubtful=beside.doubtful or not is_empty)
        return beside._replace(doubtful=beside.doubtful or not _is_empty(beside.parameters))
    if name == FINISH and inline.keys() == {"final_answer"}:
        return GivenParameters({"answer": inline["final_answer"]}, inline=True)
    doubtful = bool(keys) or not inline.keys().isdisjoint(ENVELOPE)
    return GivenParameters(inline, inline=bool(inline), doubtful=doubtful)


def _is_parameter(key: str, value: Any, name: str, item: dict[str, Any]) -> bool:
    """Whether an entry beside the name of a tool may be one of its parameters."""
    if key not in ENVELOPE:
        return True
    if key in _SAID or key in PARAMETER_KEYS or _is_empty(value):
        return False
    if not isinstance(value, str):
        return True
    if key == "id":
        # A provider's number for the call, otherwise an id that the tool asks for.
        return not value.startswith(_NUMBERED)
    # The type of the thought beside it.
    if key == "type" and value in _THOUGHTS and not item.keys().isdisjoint(THOUGHT_KEYS):
        return False
    return value != name and value not in _FORMS


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == {} or (is_array(value) and not value)


Object = dict[str, Any]
Tools = Collection[str] | Mapping[str, Mapping[str, Any]]

_OF_TEXT = frozenset({"padding", "entities", "quotes"})
NAMELESS = "the action names no tool"
SEVERAL = "it holds several different decisions"
_NESTING = frozenset({*BATCH_KEYS, *CALL_KEYS, "action"})
"""Keys that hold calls, if no text."""
_HOLDERS = (*BATCH_KEYS, "action", *CALL_KEYS)
"""The same, the one that counts first."""
_DECIDING = frozenset({*_HOLDERS, *TOOL_KEYS, *ANSWER_KEYS})
_READ = ENVELOPE.union(_HOLDERS, _CLAIMS, ("role", "content", "refusal", "index"))
"""Keys that may stand beside calls: the protocol's, and those of a message that holds them."""
_LABELS = ("name", "recipient_name")
_LIMIT = 160
_WRAPPERS = 6
_MOST = 1e6
"""No confidence is larger, in whatever unit."""


RESERVED = (FINISH, "ask_user")
"""Actions that every agent has."""


def is_offered(tool: str, tools: Tools) -> bool:
    """Whether a name may be called."""
    return tool in tools or tool in RESERVED


def is_decision(value: object, names: Collection[str] = ()) -> bool:
    """Whether an object carries a marker of the protocol; a bare thought counts.

    So does an object whose only key is one of `names` and holds an object: a tool's arguments.
    """
    if not is_object(value):
        return False
    keys = value
    if len(keys) == 1 and is_object(next(iter(keys.values()))) and next(iter(keys)) in names:
        return True
    if not keys.keys().isdisjoint(DECISIVE):
        return True
    if any(isinstance(keys.get(key), dict) for key in CALL_KEYS):
        return True
    # Data has these keys too: only with nothing beside them that is not the protocol's.
    if "answer" in keys or "reasoning" in keys:
        return keys.keys() <= ENVELOPE
    return ("name" in keys or "function" in keys) and not keys.keys().isdisjoint(PARAMETER_KEYS)


def turn_of(value: Object, tools: Tools, repairs: tuple[Repair, ...] = ()) -> Turn:
    """Reads one protocol object; see `is_decision`."""
    remark = _remark(value)
    calls = _calls(value, tools)
    return Turn(remark, calls, repairs)


def _calls(value: Object, tools: Tools) -> tuple[Call, ...]:
    """What an object decides; an error if its keys decide different things."""
    decisions = list(_decisions(value, tools))
    if not decisions:
        return ()
    chosen, *others = decisions
    if others and not _agree(chosen, others):
        return (Call("", {}, error=SEVERAL),)
    return chosen


def _decisions(value: Object, tools: Tools, *, decided: bool = False) -> Iterator[tuple[Call, ...]]:
    """What each key of an object decides, the one that counts first.

    A batch stands before a single call, and that before the object's own names: the outer key
    decides. Beside another decision (`decided`) what is empty is none.
    """
    for key in _HOLDERS:
        held = value.get(key)
        # Most are not there, and the others are a text: no call is made for these.
        if isinstance(held, dict):
            if not held and decided:
                continue
            # Of a batch or an action what stands beside it may be its own, of a call its number is.
            is_call = key in CALL_KEYS
            call = call_of(held, tools, None if is_call else value)
            yield _beside(value, (_with_id(call, value) if is_call else call,))
            decided = True
        elif held and is_array(held) and key not in CALL_KEYS:
            yield _beside(value, tuple(call_of(item, tools) for item in held))
            decided = True
    inner = _executed(value) if "action" in value else None
    if inner is not None:
        yield _beside(value, (call_of(inner, tools, value),))
        decided = True
    names = [key for key in TOOL_KEYS if isinstance(value.get(key), str)]
    if names and not decided:
        # Whatever else the object holds is a parameter of this call, or marks it.
        yield (call_of(value, tools),)
        return
    named = _named_beside(value, names, tools) if names else None
    if named is not None:
        yield (named,)
    for key in ANSWER_KEYS:
        if key in value and not (decided and _is_empty(value[key])):
            yield (Call(FINISH, {"answer": value[key]}, _text(value.get("rationale"))),)
            decided = True


def _beside(value: Object, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls that an object holds; marked if it holds more that is for them: `"skip": true`."""
    if all(key in _READ or _is_empty(each) for key, each in value.items()):
        return calls
    note = Repair("inline_parameters", "none", content=True)
    return tuple([replace(call, repairs=(*call.repairs, note)) for call in calls])


def _named_beside(value: Object, names: list[str], tools: Tools) -> Call | None:
    """The call that an object makes by a name of its own, beside calls that it holds.

    `names` are its keys that may hold that name.
    """
    own = {key: each for key, each in value.items() if key not in _NESTING or isinstance(each, str)}
    for key in names:
        name = own[key].strip()
        # Words such as "execute", or the name of an agent or a step, only head the calls.
        is_heading = name.lower() in _FORMS or (key in _LABELS and not is_offered(name, tools))
        if is_heading or not name:
            continue
        return call_of({k: v for k, v in own.items() if k == key or k not in TOOL_KEYS}, tools)
    return None


def _agree(chosen: tuple[Call, ...], others: Iterable[tuple[Call, ...]]) -> bool:
    """Whether all decide the same; a name without arguments may stand beside its call."""
    return all(len(other) == len(chosen) and all(map(_is_same, chosen, other)) for other in others)


def _is_same(call: Call, other: Call) -> bool:
    if call.tool != other.tool or call.error != other.error:
        return False
    return not other.parameters or same(call.parameters, other.parameters)


def _executed(value: Object) -> Object | None:
    """The call inside `{"action": "execute", "params": {"tool": …, "args": …}}`."""
    action = value.get("action")
    if not isinstance(action, str) or action.lower() not in GENERIC_ACTIONS:
        return None
    for key in PARAMETER_KEYS:
        inner = value.get(key)
        if is_object(inner) and any(name in inner for name in TOOL_KEYS):
            return inner
    return None


def calls_in(value: Any, tools: Tools) -> Iterator[Call]:
    """The calls that a value behind a family's mark describes: an object, or a list of them."""
    for item in value if is_array(value) else [value]:
        calls = turn_of(item, tools).calls if is_decision(item) else ()
        if calls:
            yield from (_complete(call, item) for call in calls)
        # `{"tool": {arguments}}`: here the key names the tool.
        elif _is_named_by_keys(item):
            for name, arguments in item.items():
                yield Call(name, arguments or {})
        else:
            yield _complete(call_of(item, tools), item)


def _complete(call: Call, item: Any) -> Call:
    """The call; an error if nothing was written for its arguments.

    Where arguments are JSON at least `{}` is written: what is not there may have been lost, also
    if the tool takes none, for then the name may be another's.
    """
    if call.error or call.parameters:
        return call
    if is_object(item) and not _filled(item).isdisjoint(PARAMETER_KEYS):
        return call
    return replace(call, error=_lost(call.tool))


def _lost(tool: str) -> str:
    return f"no arguments of {tool!r} were written: send them, or {{}} to call it without any"


def _filled(item: Object) -> set[str]:
    """The keys of an object and of the objects in it that hold more than `null`."""
    objects = (item, *(each for each in item.values() if is_object(each)))
    return {key for each in objects for key, value in each.items() if value is not None}


def _is_named_by_keys(item: Any) -> bool:
    """Whether an object's keys are the names of tools: `{"tool": {arguments}}`."""
    if not is_object(item) or not item or any(key in item for key in (*TOOL_KEYS, *PARAMETER_KEYS)):
        return False
    return all(is_object(each) or each is None for each in item.values())


def call_of_request(request: RawCall, tools: Tools) -> Call:
    """The call that was found in text, its arguments typed by the tool's schema if it is known."""
    call = Call(request.tool, {}, repairs=request.repairs, error=request.error)
    arguments = request.parameters
    if request.error:
        return call
    if arguments is None:
        return _complete(call, None)
    if not is_object(arguments):
        source = str(arguments) if isinstance(arguments, str) else arguments
        parameters, notes, error = arguments_of(call.tool, source, tools)
        return replace(call, parameters=parameters, repairs=(*call.repairs, *notes), error=error)
    call = replace(call, tool=offered_name(call.tool, tools))
    schema = schema_of(call.tool, tools)
    shape = plan_of_schema(schema or {}).shape
    arguments, unwrapped = _unwrapped(arguments, shape)
    arguments, fitted = _fitted(arguments, shape)
    for key in arguments:
        if key in request.repeated and not _takes_list(shape.fields.get(key)):
            error = f"the parameter {key!r} of {call.tool!r} is given several times"
            return replace(call, error=error)
    arguments = {key: _as_text(value, shape.fields.get(key)) for key, value in arguments.items()}
    values, typing = _typed(arguments, shape, is_known=schema is not None)
    # Neither blanks nor escapes nor quotes are a part of what is no text.
    solid = {f"parameters.{key}" for key, value in values.items() if not isinstance(value, str)}
    kept = [each for each in call.repairs if each.kind not in _OF_TEXT or each.path not in solid]
    return replace(call, parameters=values, repairs=(*kept, *unwrapped, *fitted, *typing))


def _typed(arguments: Object, shape: TypeShape, *, is_known: bool) -> tuple[Object, list[Repair]]:
    """Arguments with the types that a schema gives them, and how they got them.

    What the schema says nothing of is marked if it is taken for more than a text, or for a text
    and may be more; where there is none at all (not `is_known`) the caller judges the types.
    """
    values: Object = {}
    notes: list[Repair] = []
    for key, value in arguments.items():
        # Of a number a text would be a guess: `02134` was read as 2134. The validator judges both.
        if type(value) in (str, int):
            values[key] = value
            continue
        # Anew for each parameter: what one of them cost before it turned out
        # not to fit is no repair.
        coercion = Coercion(keeps=True)
        declared = shape.fields.get(key) or (shape.extra if shape.extra is not ANY else None)
        try:
            values[key] = coercion.fit(value, declared or ANY, ("parameters", key))
            notes += coercion.repairs
        except Misfit:  # the runtime's validator will say what is wrong
            values[key] = _as_written(value)
        if not isinstance(value, LooseText):
            continue
        is_more = not isinstance(values[key], str)
        if declared is None:
            is_guessed = is_known and (is_more or elements_in(value) is not None)
        else:  # it may be a text as well: the schema allows both
            is_guessed = is_more and any(map(_takes_text, declared.options))
        if is_guessed:
            path = f"parameters.{key}"
            notes.append(Repair("guessed_type", "schema", content=True, path=path))
    return values, notes


def _as_written(value: Any) -> Any:
    """A value that does not fit: what its text spells if that is JSON, else the text."""
    if not isinstance(value, LooseText):
        return value
    try:
        return decoded(value.strip())
    except (ValueError, RecursionError):
        return str(value)


def offered_name(name: str, tools: Tools) -> str:
    """The name of a tool without a name space that only repeats it: `echo.echo`.

    ReAct prompts of other libraries have models name the end `Final Answer`.
    """
    if name not in tools and fold(name) == "finalanswer":
        return FINISH
    space, _, last = name.rpartition(".")
    return last if space == last and name not in tools and last in tools else name


def _unwrapped(given: Object, shape: TypeShape) -> tuple[Object, tuple[Repair, ...]]:
    """Arguments without the one parameter around them that the tool does not have."""
    key, value = next(iter(given.items())) if len(given) == 1 else ("", None)
    # Some models repeat the schema's own words, `{"properties": {…}}`, around the values.
    if key not in (*PARAMETER_KEYS, "properties") or not shape.fields or key in shape.fields:
        return given, ()
    encoded = object_in(value) if isinstance(value, str) else None
    inner, notes = encoded or (value, ())
    if is_object(inner) and inner.keys() <= shape.fields.keys():
        return inner, notes
    return given, ()


def _as_text(value: Any, shape: TypeShape | None) -> Any:
    """A value, or the text that its tag says it is: loose where the schema has no text.

    What stands in quotes is a text that the model wrote so, and the tool's validator judges it.
    """
    if not isinstance(value, TaggedText):
        return value
    is_text = shape is None or _takes_text(shape)
    return str(value) if is_text else LooseText(value)


def _takes_text(shape: TypeShape) -> bool:
    return shape.kind in ("string", "any", "enum") or any(map(_takes_text, shape.options))


def _takes_list(shape: TypeShape | None) -> bool:
    return shape is not None and (shape.kind == "array" or any(map(_takes_list, shape.options)))


def names_a_tool(value: Any, tools: Collection[str]) -> bool:
    """Whether data names an offered tool, as a key or where a call has its name.

    Wrappers with one entry are taken off: what a tag such as `<shell>` became is one.
    """
    for _ in range(_WRAPPERS):
        if is_object(value):
            if any(key in tools for key in value):
                return True
            named = [value.get(key) for key in TOOL_KEYS]
            if any(isinstance(name, str) and name in tools for name in named):
                return True
            value = list(value.values())
        if not is_array(value) or len(value) != 1:
            return False
        value = value[0]
    return False


def parameter_names(tool: str, tools: Tools) -> Collection[str]:
    """The names of a tool's parameters, as far as they are known."""
    schema = schema_of(tool, tools)
    return tuple(schema.get("properties") or ()) if schema else ()


def call_of(item: Any, tools: Tools, around: Object | None = None) -> Call:
    """Reads one call; `around` is the object that holds it, for a rationale beside the action."""
    if isinstance(item, str):
        return Call(item, {}, error=f"the arguments of {item[:_LIMIT]!r} are missing")
    if not is_object(item):
        return Call("", {}, error=f"an action must be an object, got {_kind(item)}")
    used, name = _name_in(item)
    if is_object(name):  # {"function": {"name", "arguments"}, "id"}
        call = call_of(name, tools)
        rest = {key: each for key, each in item.items() if key != used}
        others = () if rest.keys().isdisjoint(_DECIDING) else _decisions(rest, tools, decided=True)
        if not _agree((call,), others):
            return Call("", {}, error=SEVERAL)
        return _with_id(_beside(item, (call,))[0], item)
    rationale = _rationale(item) or ("" if around is None else _rationale(around))
    identifier = _text(item.get("id"))
    if not isinstance(name, str) or not name.strip():
        return Call("", {}, rationale, identifier, error=NAMELESS)
    name = offered_name(name.strip(), tools)
    if any(map(str.isspace, name)) and not is_offered(name, tools):
        return Call("", {}, rationale, identifier, error=f"{NAMELESS}: {name[:_LIMIT]!r} is none")
    arguments, inline, doubtful = given_in(item, used, name, around)
    notes = (Repair("inline_parameters", "none", doubtful),) if inline or doubtful else ()
    repairs: tuple[Repair, ...] = ()
    error = ""
    if not inline:
        arguments, repairs, error = arguments_of(name, arguments, tools)
    arguments, fitted = as_declared(arguments, schema_of(name, tools))
    return Call(name, arguments, rationale, identifier, (*notes, *repairs, *fitted), error)


def as_declared(
    arguments: Object, schema: Mapping[str, Any] | None
) -> tuple[Object, tuple[Repair, ...]]:
    """Arguments in JSON under the names and in the form that a tool's schema declares.

    Only what keeps their content: a key in another case, a list or an object that is encoded in a
    text. What would be a guess stays as it was written, for the tool's validator to judge.
    """
    properties: Mapping[str, Any] = (schema or {}).get("properties") or {}
    # Most are as they are declared: compiling the schema would cost more than the whole reply.
    if not properties or all(k in properties and not _is_encoded(v) for k, v in arguments.items()):
        return arguments, ()
    arguments, notes = _fitted(arguments, plan_of_schema(schema or {}).shape)
    return arguments, tuple(notes)


def _fitted(arguments: Object, shape: TypeShape) -> tuple[Object, list[Repair]]:
    """See `as_declared`; text that is no JSON is typed later."""
    out: Object = {}
    notes: list[Repair] = []
    for key, value in arguments.items():
        name = key if key in shape.fields else shape.folded.get(fold(key), key)
        # A tool that takes any key may mean this one; of two spellings neither is overwritten.
        if name != key and (shape.extra is not None or name in arguments or name in out):
            name = key
        if name != key:
            notes.append(Repair("key_case", "schema", path=f"parameters.{name}"))
        out[name] = value
        if name not in shape.fields or not _is_encoded(value):
            continue
        coercion = Coercion(keeps=True)
        with suppress(Misfit):
            fitted = coercion.fit(value, shape.fields[name], ("parameters", name))
            if not any(each.content for each in coercion.repairs):
                out[name] = fitted
                notes += coercion.repairs
    return out, notes


def _is_encoded(value: Any) -> bool:
    return type(value) is str and value.lstrip()[:1] in ("{", "[")


def _name_in(item: Object) -> tuple[str, Any]:
    for key in TOOL_KEYS:
        name = item.get(key)
        if isinstance(name, str) or is_object(name):
            return key, name
    return "", None


def _rationale(item: Object) -> str:
    return _text(item.get("rationale") or item.get("justification"))


def arguments_of(tool: str, given: Any, tools: Tools) -> tuple[Object, tuple[Repair, ...], str]:
    """Reads arguments: an object, a string that holds one, or the only parameter's bare value.

    Returns:
        The arguments, the repairs and an error; the arguments count only when that is empty.
    """
    if is_object(given):
        return given, (), ""
    if given is None:
        return {}, (), ""
    if tool == FINISH:
        return {"answer": given}, (Repair("bare_answer", "none"),), ""
    if isinstance(given, str):
        if not given.strip():
            return {}, (), ""
        encoded = object_in(given)
        if encoded is not None:
            return encoded[0], encoded[1], ""
    # A bare value can only mean the one parameter that is required, if there is exactly one.
    only = _only_parameter(tool, tools)
    if only and not isinstance(given, list):
        repair = Repair("bare_parameter", "schema", content=True, path=f"parameters.{only}")
        return {only: given}, (repair,), ""
    excerpt = given if isinstance(given, str) else json.dumps(given, default=str)
    return {}, (), f"the arguments of {tool!r} must be an object, got: {excerpt[:_LIMIT]}"


def schema_of(tool: str, tools: Tools) -> Mapping[str, Any] | None:
    """The JSON schema of a tool's parameters, if the caller gave one."""
    return cast("Mapping[str, Any]", tools).get(tool) if isinstance(tools, Mapping) else None


def _only_parameter(tool: str, tools: Tools) -> str:
    schema = schema_of(tool, tools)
    if schema is None:
        return "question" if tool == "ask_user" else ""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: list[str] = list(schema.get("required") or properties)
    return required[0] if len(required) == 1 else ""


def _remark(value: Object) -> Remark | None:
    for key in THOUGHT_KEYS:
        thought = value.get(key)
        if isinstance(thought, str) and thought.strip():
            return _remark_of(thought, value, value.get("thought_type"))
        if is_object(thought):
            content = next((thought[k] for k in ("content", "text", "thought") if k in thought), "")
            kind = thought.get("type") or thought.get("thought_type") or value.get("thought_type")
            return _remark_of(_text(content), {**value, **thought}, kind)
    return None


def _remark_of(content: str, value: Object, kind: Any) -> Remark:
    label = kind.strip().lower() if isinstance(kind, str) and kind.strip() else None
    because = value.get("because")
    cited: tuple[int, ...] = ()
    if because is not None:
        items: list[Any] = because if is_array(because) else [because]
        cited = tuple(number for item in items if (number := _whole(item)) is not None)
    confidence = _confidence(value.get("confidence"))
    return Remark(content.strip(), label, cited, confidence, value.get("critical") is True)


def _confidence(claimed: Any) -> float | None:
    is_number = isinstance(claimed, int | float) and not isinstance(claimed, bool)
    return claimed if is_number and abs(claimed) <= _MOST else None  # NaN is not either


def _whole(item: object) -> int | None:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and item.strip().isascii() and item.strip().isdigit():
        # Nine digits: no step has a higher number, and `int` takes long for thousands of them.
        return int(item.strip()[:9])
    return None


def _with_id(call: Call, outer: Object) -> Call:
    identifier = _text(outer.get("id")) or call.id
    return replace(call, id=identifier, rationale=call.rationale or _rationale(outer))


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"the {type(value).__name__} {str(value)[:20]}"
