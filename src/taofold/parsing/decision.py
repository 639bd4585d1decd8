"""Reads the thought and the calls that an object, or a call found in text, decides.

`is_decision` distinguishes a decision from data; `names_a_tool` detects data that looks like a
call. `turn_of` reads a decision, `call_of` one call. `given_in` selects the entries of an object
that are parameters.

Keys that decide different things are an error. Entries that might be parameters are never dropped
silently. This module does not search text for calls. The keys are in `protocol_keys`; `arguments`
reads and types the arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from taofold.core.json_values import is_array, is_object
from taofold.parsing.arguments import (
    EXCERPT,
    arguments_of,
    as_declared,
    offered_name,
    schema_of,
    typed_arguments,
)
from taofold.parsing.markup.calls import RawCall
from taofold.parsing.outcome import Call, Remark, Repair, Turn
from taofold.parsing.protocol_keys import (
    ANSWER_KEYS,
    BATCH_KEYS,
    CALL_KEYS,
    DECISIVE,
    ENVELOPE,
    FINISH,
    GENERIC_ACTIONS,
    PARAMETER_KEYS,
    REMARK_KEYS,
    THOUGHT_KEYS,
    TOOL_KEYS,
    Object,
    Tools,
    is_offered,
)
from taofold.parsing.schema.scalars import same

_FORMS = GENERIC_ACTIONS | {"function", "function_call", "tool_use", "action"}
"""Values of `type` and of a second name that only mark an object as a call."""
_THOUGHTS = frozenset(
    ["goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"]
)
_CLAIMS = frozenset({"id", "tier", "approved"})
"""Keys beside the parameters that describe the call and its clearance.

The claimed clearance is ignored.
"""
_NUMBERED = ("call_", "call-", "toolu_", "fc_")


class GivenParameters(NamedTuple):
    """The parameters that an object gives for its call.

    Attributes:
        parameters: As written.
        inline: True if they stood beside the name instead of under a key of their own.
        doubtful: True if some entries may not be parameters.
    """

    parameters: Any
    inline: bool = False
    doubtful: bool = False


def given_in(
    item: dict[str, Any], used: str, name: str, around: dict[str, Any] | None
) -> GivenParameters:
    """Selects the parameters that an object gives for its call.

    Args:
        item: The object.
        used: Its key that holds the name of the tool.
        name: That name.
        around: The object that holds `item`; read only if `item` itself has no parameters.
    """
    keys = [key for key in PARAMETER_KEYS if key in item and key != used]
    inline = {k: v for k, v in item.items() if k != used and _is_parameter(k, v, name, item)}
    filled = [key for key in keys if not _is_empty(item[key])]
    if filled or (keys and not inline):
        # Uses the first non-empty key: an empty `"parameters"` may stand beside a full `"args"`.
        chosen = item[(filled or keys)[0]]
        has_rivals = (
            any(item[key] != chosen for key in filled[1:])
            or any(k not in _CLAIMS and not _is_empty(v) for k, v in inline.items())
            or (around is not None and _holds_others(around, item, chosen))
        )
        return GivenParameters(chosen, doubtful=has_rivals)
    if not inline and around is not None:
        return _given_beside(item, name, around)
    if name == FINISH and inline.keys() == {"final_answer"}:
        return GivenParameters({"answer": inline["final_answer"]}, inline=True)
    doubtful = bool(keys) or not inline.keys().isdisjoint(ENVELOPE)
    return GivenParameters(inline, inline=bool(inline), doubtful=doubtful)


def _holds_others(around: dict[str, Any], item: dict[str, Any], chosen: Any) -> bool:
    """Returns whether the enclosing object holds parameters other than the chosen ones."""
    outer = [around.get(key) for key in PARAMETER_KEYS]
    return any(each not in (item, chosen) and not _is_empty(each) for each in outer)


def _given_beside(item: dict[str, Any], name: str, around: dict[str, Any]) -> GivenParameters:
    """Returns parameters beside the call: `{"action": {"tool": "x"}, "parameters": {…}}`."""
    others = {key: value for key, value in around.items() if value is not item}
    beside = given_in(others, "", name, None)
    if beside.inline:  # entries without a key of their own may not be parameters
        is_empty = all(map(_is_empty, beside.parameters.values()))
        return GivenParameters({}, doubtful=beside.doubtful or not is_empty)
    return beside._replace(doubtful=beside.doubtful or not _is_empty(beside.parameters))


def _is_parameter(key: str, value: Any, name: str, item: dict[str, Any]) -> bool:
    """Returns whether an entry beside the name of a tool may be a parameter."""
    if key not in ENVELOPE:
        return True
    if key in REMARK_KEYS or key in PARAMETER_KEYS or _is_empty(value):
        return False
    if not isinstance(value, str):
        return True
    if key == "id":
        # A provider's call id has a known prefix; any other id may be a parameter of the tool.
        return not value.startswith(_NUMBERED)
    # The type of the adjacent thought.
    if key == "type" and value in _THOUGHTS and not item.keys().isdisjoint(THOUGHT_KEYS):
        return False
    return value != name and value not in _FORMS


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == {} or (is_array(value) and not value)


_OF_TEXT = frozenset({"padding", "entities", "quotes"})
NAMELESS = "the action names no tool"
SEVERAL = "it holds several different decisions"
_NESTING = frozenset({*BATCH_KEYS, *CALL_KEYS, "action"})
"""Keys that hold calls unless their value is text."""
_HOLDERS = (*BATCH_KEYS, "action", *CALL_KEYS)
"""The same keys in order of precedence."""
_DECIDING = frozenset({*_HOLDERS, *TOOL_KEYS, *ANSWER_KEYS})
_READ = ENVELOPE.union(_HOLDERS, _CLAIMS, ("role", "content", "refusal", "index"))
"""Keys that may stand beside calls: those of the protocol and of a message that holds the calls."""
_LABELS = ("name", "recipient_name")
_WRAPPERS = 6
_MOST = 1e6
"""The largest confidence that is accepted, in any unit."""


def is_decision(value: object, names: Collection[str] = ()) -> bool:
    """Returns whether an object carries a marker of the protocol. A bare thought counts.

    An object whose only key is one of `names` and holds an object, the tool's arguments, counts
    too.
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
    # Data also uses these keys: they count only if all other keys belong to the protocol.
    if "answer" in keys or "reasoning" in keys:
        return keys.keys() <= ENVELOPE
    return ("name" in keys or "function" in keys) and not keys.keys().isdisjoint(PARAMETER_KEYS)


def turn_of(value: Object, tools: Tools, repairs: tuple[Repair, ...] = ()) -> Turn:
    """Reads one protocol object; see `is_decision`."""
    remark = _remark(value)
    calls = _calls(value, tools)
    return Turn(remark, calls, repairs)


def _calls(value: Object, tools: Tools) -> tuple[Call, ...]:
    """Returns the calls of an object, or one call with an error if its keys decide different
    things.
    """
    decisions = list(_decisions(value, tools))
    if not decisions:
        return ()
    chosen, *others = decisions
    if others and not _agree(chosen, others):
        return (Call("", {}, error=SEVERAL),)
    return chosen


def _decisions(value: Object, tools: Tools, *, decided: bool = False) -> Iterator[tuple[Call, ...]]:
    """Yields the calls that each key of an object decides, in order of precedence.

    A batch precedes a single call, which precedes the object's own names: the outer key decides.
    After another decision (`decided`), an empty value is ignored.
    """
    for key in _HOLDERS:
        inner = value.get(key)
        # Most keys are absent and the others hold text: no `call_of` for these.
        if isinstance(inner, dict):
            if not inner and decided:
                continue
            # Entries beside a batch or an action may be its parameters; beside a call only the id
            # is taken.
            is_call = key in CALL_KEYS
            call = call_of(inner, tools, None if is_call else value)
            yield _beside(value, (_with_id(call, value) if is_call else call,))
            decided = True
        elif inner and is_array(inner) and key not in CALL_KEYS:
            yield _beside(value, tuple(call_of(item, tools) for item in inner))
            decided = True
    executed = _executed(value) if "action" in value else None
    if executed is not None:
        yield _beside(value, (call_of(executed, tools, value),))
        decided = True
    names = [key for key in TOOL_KEYS if isinstance(value.get(key), str)]
    if names and not decided:
        # All other entries of the object are parameters of this call, or mark it as doubtful.
        yield (call_of(value, tools),)
        return
    named = _named_beside(value, names, tools) if names else None
    if named is not None:
        yield (named,)
    for key in ANSWER_KEYS:
        if key in value and not (decided and _is_empty(value[key])):
            answer = {"answer": value[key]}
            if isinstance(value.get("success"), bool):
                answer["success"] = value["success"]
            yield (Call(FINISH, answer, _text(value.get("rationale"))),)
            decided = True


def _beside(value: Object, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Returns an object's calls, marked if other entries may be theirs: `"skip": true`."""
    if all(key in _READ or _is_empty(each) for key, each in value.items()):
        return calls
    note = Repair("inline_parameters", "none", content=True)
    return tuple([replace(call, repairs=(*call.repairs, note)) for call in calls])


def _named_beside(value: Object, names: list[str], tools: Tools) -> Call | None:
    """Returns the call that an object makes by its own name, beside the calls that it holds.

    Args:
        value: The object.
        names: Its keys that may hold that name.
        tools: The offered tools.
    """
    own = {key: each for key, each in value.items() if key not in _NESTING or isinstance(each, str)}
    for key in names:
        name = own[key].strip()
        # A word such as "execute", or the name of an agent or a step, is only a heading of the
        # calls.
        is_heading = name.lower() in _FORMS or (key in _LABELS and not is_offered(name, tools))
        if is_heading or not name:
            continue
        return call_of({k: v for k, v in own.items() if k == key or k not in TOOL_KEYS}, tools)
    return None


def _agree(chosen: tuple[Call, ...], others: Iterable[tuple[Call, ...]]) -> bool:
    """Returns whether all decide the same. A name without arguments agrees with its full call."""
    return all(len(other) == len(chosen) and all(map(_is_same, chosen, other)) for other in others)


def _is_same(call: Call, other: Call) -> bool:
    if call.tool != other.tool or call.error != other.error:
        return False
    return not other.parameters or same(call.parameters, other.parameters)


def _executed(value: Object) -> Object | None:
    """Returns the call inside `{"action": "execute", "params": {"tool": …, "args": …}}`."""
    action = value.get("action")
    if not isinstance(action, str) or action.lower() not in GENERIC_ACTIONS:
        return None
    for key in PARAMETER_KEYS:
        inner = value.get(key)
        if is_object(inner) and any(name in inner for name in TOOL_KEYS):
            return inner
    return None


def calls_in(value: Any, tools: Tools) -> Iterator[Call]:
    """Yields the calls of the value after a family's mark: an object, or a list of them."""
    for item in value if is_array(value) else [value]:
        calls = turn_of(item, tools).calls if is_decision(item) else ()
        if calls:
            yield from (_complete(call, item) for call in calls)
        # `{"tool": {arguments}}`: the key is the name of the tool.
        elif _is_named_by_keys(item):
            for name, arguments in item.items():
                yield Call(name, arguments or {})
        else:
            yield _complete(call_of(item, tools), item)


def _complete(call: Call, item: Any) -> Call:
    """Returns the call, with an error if its arguments are missing.

    A call in JSON has at least `{}` as arguments, so missing ones may have been lost. This holds
    for a tool without parameters as well: the name may belong to another tool.
    """
    if call.error or call.parameters:
        return call
    if is_object(item) and not _filled(item).isdisjoint(PARAMETER_KEYS):
        return call
    return replace(call, error=_lost(call.tool))


def _lost(tool: str) -> str:
    return f"no arguments of {tool!r} were written: send them, or {{}} to call it without any"


def _filled(item: Object) -> set[str]:
    """Returns the keys with a non-null value in an object and in the objects directly inside it."""
    objects = (item, *(each for each in item.values() if is_object(each)))
    return {key for each in objects for key, value in each.items() if value is not None}


def _is_named_by_keys(item: Any) -> bool:
    """Returns whether an object's keys are names of tools: `{"tool": {arguments}}`."""
    if not is_object(item) or not item or any(key in item for key in (*TOOL_KEYS, *PARAMETER_KEYS)):
        return False
    return all(is_object(each) or each is None for each in item.values())


def call_of_request(request: RawCall, tools: Tools) -> Call:
    """Types the arguments of a call found in text by the tool's schema, if it is known."""
    call = Call(request.tool, {}, repairs=request.repairs, error=request.error)
    arguments = request.parameters
    if request.error:
        return call
    if arguments is None:
        return _complete(call, None)
    if not is_object(arguments):
        source = str(arguments) if isinstance(arguments, str) else arguments
        parameters, reading, error = arguments_of(call.tool, source, tools)
        return replace(call, parameters=parameters, repairs=(*call.repairs, *reading), error=error)
    call = replace(call, tool=offered_name(call.tool, tools))
    values, notes, repeated = typed_arguments(
        arguments, schema_of(call.tool, tools), request.repeated
    )
    if repeated:
        error = f"the parameter {repeated!r} of {call.tool!r} is given several times"
        return replace(call, error=error)
    # Blanks, escapes and quotes have no effect on values that are not text.
    solid = {f"parameters.{key}" for key, value in values.items() if not isinstance(value, str)}
    lasting = [each for each in call.repairs if each.kind not in _OF_TEXT or each.path not in solid]
    return replace(call, parameters=values, repairs=(*lasting, *notes))


def names_a_tool(value: Any, tools: Collection[str]) -> bool:
    """Returns whether data names an offered tool, as a key or in the place of a call's name.

    Wrappers with one entry are removed first: a tag such as `<shell>` is read as one.
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


def call_of(item: Any, tools: Tools, around: Object | None = None) -> Call:
    """Reads one call. `around` is the enclosing object, which may hold its rationale."""
    if isinstance(item, str):
        return Call(item, {}, error=f"the arguments of {item[:EXCERPT]!r} are missing")
    if not is_object(item):
        return Call("", {}, error=f"an action must be an object, got {_kind(item)}")
    used, name = _name_in(item)
    if is_object(name):  # `{"function": {"name", "arguments"}, "id"}`
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
        return Call("", {}, rationale, identifier, error=f"{NAMELESS}: got {name[:EXCERPT]!r}")
    arguments, inline, doubtful = given_in(item, used, name, around)
    notes = (Repair("inline_parameters", "none", doubtful),) if inline or doubtful else ()
    repairs: tuple[Repair, ...] = ()
    error = ""
    if not inline:
        arguments, repairs, error = arguments_of(name, arguments, tools)
    arguments, fitted = as_declared(arguments, schema_of(name, tools))
    return Call(name, arguments, rationale, identifier, (*notes, *repairs, *fitted), error)


def _name_in(item: Object) -> tuple[str, Any]:
    for key in TOOL_KEYS:
        name = item.get(key)
        if isinstance(name, str) or is_object(name):
            return key, name
    return "", None


def _rationale(item: Object) -> str:
    return _text(item.get("rationale") or item.get("justification"))


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
    critical, learned = value.get("critical") is True, _text(value.get("learned")).strip()
    return Remark(content.strip(), label, cited, confidence, critical, learned)


def _confidence(claimed: Any) -> float | None:
    is_number = isinstance(claimed, int | float) and not isinstance(claimed, bool)
    return claimed if is_number and abs(claimed) <= _MOST else None  # also rejects NaN


def _whole(item: object) -> int | None:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and item.strip().isascii() and item.strip().isdigit():
        # At most nine digits: step numbers are smaller, and `int` is slow for thousands of digits.
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
