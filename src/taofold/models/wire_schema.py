"""Schemas in the form that a provider accepts: parameters of tools, and forms of answers.

Servers, users and libraries write JSON Schema in every draft. Providers accept subsets and refuse
the whole request for one schema outside of them. Parameters are relaxed, never narrowed: each call
that the tool's own schema allows stays possible, and the runtime checks calls against that schema.
Forms of answers are closed and reduced so that the provider can enforce them. The reply is checked
against the original. Pure and independent of requests and HTTP.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import isfinite
from typing import Any, Final

import msgspec

from taofold.core.json_values import JSON, at_pointer, is_array, is_object, is_sequence

_DEEPEST: Final = 64
"""Maximum levels of a schema, because the walk is recursive. No vendor documents more than ten, and
calls are rarely that deep.
"""
_MOST_FOLDED: Final = 1_000
"""Maximum schemas that are merged into the root object, from unions and references."""
_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else"),
    *("propertyNames", "unevaluatedProperties", "unevaluatedItems"),
)
_UNIONS: Final = ("anyOf", "oneOf")
_ROOT_ONLY_REFUSED: Final = ("enum", "const", "not")


_ROOT: Final = "taofold_root"
"""The definition for references to the whole schema (`#`)."""


class Unsupported(Exception):
    """A schema cannot be adapted. The text is the reason."""


def property_names(schema: JSON) -> set[str]:
    """Returns the names of all properties in `schema`.

    Raises:
        Unsupported: It is nested too deep.
    """
    names: set[str] = set()
    for node in _nodes(schema):
        properties = node.get("properties")
        if is_object(properties):
            names |= properties.keys()
    return names


def _nodes(schema: JSON, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEEPEST:
        raise Unsupported(f"its schema is nested deeper than {_DEEPEST} levels")
    if not is_object(schema):
        return
    yield schema
    for inner in _inner(schema):
        yield from _nodes(inner, depth + 1)


def _inner(node: dict[str, Any]) -> Iterator[JSON]:
    """Yields the direct subschemas of `node`."""
    for key in _NAMED:
        if is_object(node.get(key)):
            yield from node[key].values()
    for key in _LISTS:
        if is_sequence(node.get(key)):
            yield from node[key]
    for key in _SINGLE:
        inner = node.get(key)
        if is_object(inner):
            yield inner
        elif key == "items" and is_sequence(inner):
            yield from inner


def adapt_parameters(schema: JSON, renames: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """Returns parameters that every provider accepts, and a hint for the tool's description.

    The root becomes an object without unions: OpenAI ("schema must have type 'object' and not have
    'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level") and Anthropic ("input_schema does not
    support oneOf, allOf, or anyOf at the top level") refuse others. Old drafts become draft
    2020-12, which Anthropic requires. Properties get the names in `renames`.

    Raises:
        Unsupported: The arguments are not an object, or the schema is nested too deep.
    """
    if not is_object(schema):
        raise Unsupported("its schema is no object")
    groups: list[tuple[str, ...]] = []
    root = _folded(schema, schema, (), groups, count(1))
    for key in _ROOT_ONLY_REFUSED:
        root.pop(key, None)
    for key in ("$defs", "definitions"):
        if is_object(schema.get(key)):
            root[key] = schema[key]
    repair = _Repair(schema, renames)
    whole = repair.node(root)
    whole["type"] = "object"
    whole.setdefault("properties", {})
    if repair.refers_to_root:
        # llama.cpp: "unsupported $ref #, only references into the same document are".
        own = {key: value for key, value in whole.items() if key not in ("$defs", "definitions")}
        whole["$defs"] = {**whole.get("$defs", {}), _ROOT: own}
    names = [" and ".join(renames.get(name, name) for name in group) for group in groups]
    distinct = list(dict.fromkeys(names))
    hint = f"Arguments: give {' or '.join(distinct)}." if len(distinct) > 1 else ""
    return whole, hint


def _folded(
    schema: JSON,
    root: JSON,
    open_references: tuple[str, ...],
    groups: list[tuple[str, ...]],
    steps: Iterator[int],
) -> dict[str, Any]:
    """Returns the object that `schema` describes, with the members of its unions merged.

    `groups` receives the properties that members of unions require. `steps` counts the schemas,
    because nested unions double them with every level.
    """
    if next(steps) > _MOST_FOLDED:
        raise Unsupported(f"its root combines more than {_MOST_FOLDED} schemas")
    if len(open_references) > _DEEPEST:
        raise Unsupported(f"its schema is nested deeper than {_DEEPEST} levels")
    if not is_object(schema):
        return {}
    node: dict[str, Any] = {key: value for key, value in schema.items() if key not in _UNIONS}
    node.pop("allOf", None)
    reference = node.pop("$ref", None)
    members: list[tuple[str, list[JSON]]] = [
        (key, list(schema[key])) for key in (*_UNIONS, "allOf") if is_sequence(schema.get(key))
    ]
    if isinstance(reference, str) and reference not in open_references:
        members.append(("allOf", [at_pointer(root, reference)]))
    if "type" in node and not _has_type(node, "object"):
        raise Unsupported(f"its arguments are no object but {node['type']!r}")
    here = (*open_references, str(reference))
    for key, branches in members:
        folded: list[dict[str, Any]] = []
        for branch in branches:
            if branch is False or (key != "allOf" and not _may_be_object(branch, root)):
                continue
            folded.append(_folded(branch, root, here, groups, steps))
        if key != "allOf" and len(folded) > 1:
            groups += [tuple(map(str, _strings(each.get("required")))) for each in folded]
        node = _merged(node, folded, every=key == "allOf")
    return node


def _may_be_object(schema: JSON, root: JSON) -> bool:
    for _ in range(8):
        if is_object(schema) and isinstance(schema.get("$ref"), str):
            schema = at_pointer(root, schema["$ref"])
    return not is_object(schema) or "type" not in schema or _has_type(schema, "object")


def _strings(value: JSON) -> list[str]:
    return [each for each in value if isinstance(each, str)] if is_sequence(value) else []


def _merged(node: dict[str, Any], members: list[dict[str, Any]], *, every: bool) -> dict[str, Any]:
    """Returns `node` with the properties of `members`, all or any of which must hold."""
    if not members:
        return node
    own: dict[str, Any] = node["properties"] if is_object(node.get("properties")) else {}
    found: dict[str, list[JSON]] = {}
    for member in members:
        properties = member.get("properties")
        for name, inner in properties.items() if is_object(properties) else ():
            known = found.setdefault(name, [])
            if inner not in known:
                known.append(inner)
    merged = {
        name: inner[0] if len(inner) == 1 else {"allOf" if every else "anyOf": inner}
        for name, inner in found.items()
    }
    required = [set(_strings(member.get("required"))) for member in members]
    demanded = set[str]().union(*required) if every else set[str].intersection(*required)
    names = list(dict.fromkeys([*_strings(node.get("required")), *sorted(demanded)]))
    # `additionalProperties` covers only properties beside it. Merged with the members' properties,
    # it stays closed only if nothing open was merged.
    closings = [member.get("additionalProperties") is False for member in members]
    closed = node.get("additionalProperties") is False or (
        any(closings) if every else all(closings)
    )
    result = dict(node)
    for member in members:
        if every or len(members) == 1:
            result = {**member, **result}
    result.pop("additionalProperties", None)
    result |= {"properties": {**merged, **own}, "required": names}
    return result | ({"additionalProperties": False} if closed else {})


class _Repair:
    """Rewrites a schema, node by node, into valid draft 2020-12."""

    def __init__(self, root: JSON, renames: Mapping[str, str]) -> None:
        self._root, self._renames = root, renames
        self.refers_to_root = False

    def node(self, schema: JSON, depth: int = 0) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise Unsupported(f"its schema is nested deeper than {_DEEPEST} levels")
        if not is_object(schema):
            return {"not": {}} if schema is False else {}
        node: dict[str, Any] = dict(schema)
        # Ids and dialects change the meaning of `$ref` and the draft.
        for key in ("$schema", "$id"):
            node.pop(key, None)
        self._references(node)
        _types(node)
        _values(node)
        _lists(node)
        _choices(node)
        _bounds(node)
        _items(node)
        for key in _NAMED:
            if key in node:
                self._named(node, key, depth)
        for key in _LISTS:
            if key in node:
                node[key] = [self.node(inner, depth + 1) for inner in node[key]]
        for key in _SINGLE:
            # llama.cpp: "items: schema must be an object". `false` is relaxed to anything.
            if key in ("items", "contains") and isinstance(node.get(key), bool):
                node[key] = {}
            elif key in node and not isinstance(node[key], bool):
                node[key] = self.node(node[key], depth + 1)
        self._rename(node)
        return node

    def _references(self, node: dict[str, Any]) -> None:
        reference = node.get("$ref")
        # OpenAI refuses a dangling reference, which here means "anything". llama.cpp does not read
        # the escapes of RFC 6901 (`~1`), so such references become "anything" too.
        if "$ref" in node and (
            not isinstance(reference, str)
            or not reference.startswith("#")
            or "~" in reference
            or at_pointer(self._root, reference) is None
        ):
            del node["$ref"]
        elif isinstance(reference, str) and self._renames:
            parts = reference.split("/")
            # The segment after `properties` is a name.
            node["$ref"] = "/".join(
                self._renames.get(part, part) if before == "properties" else part
                for before, part in zip(["", *parts], parts, strict=False)
            )
        if node.get("$ref") == "#":
            node["$ref"] = f"#/$defs/{_ROOT}"
            self.refers_to_root = True

    def _named(self, node: dict[str, Any], key: str, depth: int) -> None:
        if not is_object(node[key]):
            del node[key]
            return
        rename: Callable[[str], str] = lambda name: (  # noqa: E731
            self._renames.get(name, name) if key in ("properties", "dependentSchemas") else name
        )
        node[key] = {rename(name): self.node(inner, depth + 1) for name, inner in node[key].items()}

    def _rename(self, node: dict[str, Any]) -> None:
        if "required" in node:
            node["required"] = [self._renames.get(name, name) for name in node["required"]]
        if is_object(node.get("dependentRequired")) and self._renames:
            node["dependentRequired"] = {
                self._renames.get(name, name): [
                    self._renames.get(each, each) for each in _strings(names)
                ]
                for name, names in node["dependentRequired"].items()
            }
        if self._renames:
            # Patterns were written for the original names.
            node.pop("propertyNames", None)
            if node.pop("patternProperties", None) is not None:
                node.pop("additionalProperties", None)


def _has_type(node: dict[str, Any], kind: str) -> bool:
    kinds = node.get("type")
    return kinds == kind or (is_sequence(kinds) and kind in kinds)


def _types(node: dict[str, Any]) -> None:
    kinds = node.get("type")
    if is_array(kinds):
        node["type"] = [kind for kind in dict.fromkeys(map(str, kinds)) if kind in _TYPES]
        if not node["type"]:
            del node["type"]
    elif "type" in node and kinds not in _TYPES:
        del node["type"]  # "any", "file" and the like


def _lists(node: dict[str, Any]) -> None:
    """Drops invalid lists. Draft 3 has `required: true` in a property."""
    if "required" in node:
        node["required"] = list(dict.fromkeys(_strings(node["required"])))
        if not node["required"]:
            del node["required"]
    for key in ("enum", *_LISTS):
        if key in node and (not is_sequence(node[key]) or not node[key]):
            del node[key]


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value: JSON) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: JSON) -> bool:
    return isinstance(value, str)


def _is_anchor(value: JSON) -> bool:
    return isinstance(value, str) and _ANCHOR.fullmatch(value) is not None


def _is_flag(value: JSON) -> bool:
    return isinstance(value, bool)


_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_COUNTS: Final = ("Length", "Items", "Properties", "Contains")
_VALUES: Final[Mapping[str, Callable[[JSON], bool]]] = {
    **{f"{bound}{what}": _is_count for bound in ("min", "max") for what in _COUNTS},
    # Draft 4 has flags here, which `_bounds` rewrites.
    "exclusiveMinimum": lambda value: _is_flag(value) or _is_number(value),
    "exclusiveMaximum": lambda value: _is_flag(value) or _is_number(value),
    "minimum": _is_number,
    "maximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    **dict.fromkeys(("title", "description", "pattern", "format", "$comment"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _is_anchor),
    "$dynamicRef": _is_text,
    "examples": is_sequence,
    "dependentRequired": is_object,
}
"""Valid values of draft 2020-12's keywords. `"minLength": "3"` would fail the request."""


def _values(node: dict[str, Any]) -> None:
    """Drops keywords with a value that the draft does not allow."""
    for key in node.keys() & _VALUES.keys():
        if not _VALUES[key](node[key]):
            del node[key]
        elif _VALUES[key] is _is_count:
            node[key] = int(node[key])


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _choices(node: dict[str, Any]) -> None:
    """Drops choices that the type rules out: `{"type": "null", "enum": ["A"]}` is refused."""
    kinds = node.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds or "enum" not in node:
        return
    node["enum"] = [each for each in node["enum"] if any(_is_kind(each, kind) for kind in kinds)]
    if not node["enum"]:
        del node["enum"]


def _is_kind(value: JSON, kind: str) -> bool:
    if isinstance(value, bool):  # an int for isinstance
        return kind == "boolean"
    return isinstance(value, _KINDS[kind])


def _bounds(node: dict[str, Any]) -> None:
    """Converts draft 4's flags to the numbers of later drafts."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = node.get(exclusive)
        if isinstance(flag, bool):
            del node[exclusive]
            if flag and bound in node:
                node[exclusive] = node.pop(bound)


def _items(node: dict[str, Any]) -> None:
    rest = node.pop("additionalItems", None)
    items = node.get("items")
    if is_array(items):
        # Draft 7 and older: a tuple is a list of `items`.
        del node["items"]
        if items:
            node["prefixItems"] = items
        if rest is not None:
            node["items"] = rest
    # OpenAI: "array schema missing items"; Gemini: "items: missing field".
    if _has_type(node, "array") and "items" not in node:
        node["items"] = {}


ANSWER: Final = "answer"
"""The property that holds an answer which is not an object."""


@dataclass(frozen=True, slots=True)
class FormRules:
    """The parts of an answer's schema that a provider enforces.

    Args:
        keywords: Enforced keywords. Other bounds become text of the description.
        formats: Known values of `format`.
        object_root: The root must be an object without unions.
        closed: Objects must have `additionalProperties: false`.
        all_required: Each property must be required.
        recursive: A schema may refer to itself.
        most_items: Maximum `minItems`. None = any.
        constants: `const`, and an `enum` of values besides text and numbers, are known.
        depth: Levels of objects and arrays. 0 = no documented maximum.
        properties: Total properties. 0 = no documented maximum.
        optional: Optional properties. 0 = no documented maximum.
        unions: Values of more than one type. 0 = no documented maximum.
    """

    keywords: frozenset[str]
    formats: frozenset[str] = frozenset()
    object_root: bool = False
    closed: bool = True
    all_required: bool = False
    recursive: bool = True
    most_items: int | None = None
    constants: bool = True
    depth: int = 0
    properties: int = 0
    optional: int = 0
    unions: int = 0


_SHAPE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs"}
    | {"definitions", "enum", "const", "title", "description"}
)
_DATES: Final = frozenset({"date-time", "time", "date", "duration"})
_HOSTS: Final = frozenset({"email", "hostname", "ipv4", "ipv6", "uuid"})

OPENAI_FORM: Final = FormRules(
    _SHAPE
    | {"pattern", "format", "minItems", "maxItems", "multipleOf"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    _DATES | _HOSTS,
    object_root=True,
    all_required=True,
    depth=10,
    properties=5_000,
)
"""OpenAI, guide "Structured model outputs", "Supported schemas": "Root objects must not be anyOf
and must be an object", "All fields must be required", "additionalProperties: false must always be
set", "up to 5000 object properties total, with up to 10 levels of nesting"."""
ANTHROPIC_FORM: Final = FormRules(
    _SHAPE | {"format", "minItems", "default"},
    _DATES | _HOSTS | {"uri"},
    recursive=False,
    most_items=1,
    optional=24,
    unions=16,
)
"""Anthropic, "Structured outputs", "JSON Schema limitations": no recursive schemas, numerical or
string bounds, no `minItems` above 1, `additionalProperties` must be false; at most 24
optional parameters and 16 of a union type."""
GEMINI_FORM: Final = FormRules(
    _SHAPE | {"format", "prefixItems", "minItems", "maxItems", "minimum", "maximum"},
    _DATES,
    closed=False,
    constants=False,
)
"""Google, API reference, `GenerationConfig.responseJsonSchema`: the listed properties, `enum`
for strings and numbers, and nothing beside a `$ref`."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """An answer's schema as it is sent.

    Args:
        wrapped: The answer is the property `answer` of the reply.
        reason: The reason why the provider cannot enforce it, or "".
    """

    schema: dict[str, JSON]
    wrapped: bool = False
    reason: str = ""

    def unwrap(self, text: str) -> str:
        """Returns the answer's own JSON. Unwrapped text is returned unchanged."""
        if not self.wrapped:
            return text
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text
        if not is_object(value) or set(value) != {ANSWER}:
            return text  # the server did not follow the form
        return msgspec.json.encode(value[ANSWER]).decode()


_OPENING: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*')
_BEGUN: Final = re.compile(r'\s*(\{\s*("(a(n(s(w(e(r("\s*(:\s*)?)?)?)?)?)?)?)?)?)?')
_CLOSING: Final = re.compile(r"\s*\}?\s*\Z")


class UnwrappedText:
    """Passes on the text of a wrapped answer, as it arrives, without its wrapper.

    Text without a wrapper is passed on unchanged. Call it with each piece, then call `end`.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._held = ""
        self._inside: bool | None = None
        """None: not yet known if it is wrapped."""

    def __call__(self, piece: str) -> None:
        """Takes the next piece."""
        text = self._held + piece
        self._held = ""
        if self._inside is None:
            if opening := _OPENING.match(text):
                # Whitespace of the opening may still follow.
                if opening.end() == len(text):
                    self._held = text
                    return
                self._inside, text = True, text[opening.end() :]
            elif _BEGUN.fullmatch(text):
                self._held = text
                return
            else:
                self._inside = False
        if self._inside and (closing := _CLOSING.search(text)):
            # A possible end of the wrapper is held back until more text rules it out.
            self._held, text = text[closing.start() :], text[: closing.start()]
        if text:
            self._tell(text)

    def end(self) -> None:
        """Ends the text."""
        if not self._inside and self._held:
            self._tell(self._held)
        self._held = ""


def adapt_form(schema: dict[str, JSON], rules: FormRules) -> AnswerForm:
    """Returns an answer's form that a provider with `rules` accepts and, if possible, enforces.

    An enforced form is narrower than the schema (closed, defaults written out), except for bounds
    that the provider does not support, which become text.
    """
    rooted, wrapped = _rooted(schema, rules)
    try:
        return AnswerForm(_Form(rooted, rules).whole(), wrapped)
    except Unsupported as why:
        return AnswerForm(rooted, wrapped, str(why))


def _rooted(schema: dict[str, JSON], rules: FormRules) -> tuple[dict[str, JSON], bool]:
    """Returns the schema with its root reference resolved, and True if it had to be wrapped."""
    root = dict(schema)
    followed: set[str] = set()
    while isinstance(root.get("$ref"), str) and root["$ref"] not in followed:
        reference = root.pop("$ref")
        followed.add(reference)
        target = at_pointer(schema, reference)
        root = {**(target if is_object(target) else {}), **root}
    plain = root.get("type") == "object" and not {"anyOf", "oneOf", "allOf", "$ref", "enum"} & set(
        root
    )
    if plain or not rules.object_root:
        return root, False
    definitions = {key: root.pop(key) for key in ("$defs", "definitions") if key in root}
    answer = _moved(root)
    wrapper: dict[str, JSON] = {
        "type": "object",
        "properties": {ANSWER: answer},
        "required": [ANSWER],
        "additionalProperties": False,
    }
    return wrapper | {key: _moved(value) for key, value in definitions.items()}, True


def _moved(value: JSON, depth: int = 0) -> JSON:
    """Returns a part of a schema whose root moved to `#/properties/answer`."""
    if depth > _DEEPEST:
        return value
    if is_object(value):
        moved = {key: _moved(inner, depth + 1) for key, inner in value.items()}
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            inside = reference.startswith(("#/$defs/", "#/definitions/"))
            moved["$ref"] = reference if inside else f"#/properties/{ANSWER}{reference[1:]}"
        return moved
    return [_moved(inner, depth + 1) for inner in value] if is_sequence(value) else value


class _Form:
    """Rewrites an answer's schema within a provider's rules."""

    def __init__(self, root: dict[str, JSON], rules: FormRules) -> None:
        self._root, self._rules = root, rules
        self._properties = self._optional = self._unions = 0

    def whole(self) -> dict[str, JSON]:
        if not self._rules.recursive:
            self._refuse_cycles()
        return self.node(self._root, 0)

    def _refuse_cycles(self) -> None:
        done: set[str] = set()

        def follow(schema: JSON, open_references: tuple[str, ...]) -> None:
            for node in _nodes(schema):
                reference = node.get("$ref")
                if not isinstance(reference, str) or reference in done:
                    continue
                if reference in open_references or reference == "#":
                    raise Unsupported("the schema refers to itself")
                follow(at_pointer(self._root, reference), (*open_references, reference))
                done.add(reference)

        follow({key: value for key, value in self._root.items() if key not in _NAMED[2:4]}, ())
        follow(self._root, ())

    def node(self, schema: JSON, depth: int) -> dict[str, Any]:
        rules = self._rules
        if depth > (rules.depth or _DEEPEST):
            raise Unsupported(f"the schema is nested deeper than {rules.depth or _DEEPEST} levels")
        if not is_object(schema) or not set(schema) - {"title", "description", "default"}:
            raise Unsupported("a part of the schema allows any value")
        node: dict[str, Any] = dict(schema)
        if isinstance(node.get("$ref"), str):
            if at_pointer(self._root, node["$ref"]) is None:
                raise Unsupported(f"the schema's {node['$ref']!r} leads nowhere")
            # Each vendor refuses or ignores other keywords beside a reference.
            kept = {"$ref": node["$ref"]}
            return kept | (self._definitions(node, depth) if schema is self._root else {})
        self._combine(node)
        self._tuple(node)
        self._constants(node)
        self._object(node, depth)
        if is_sequence(node.get("anyOf")) or is_sequence(node.get("type")):
            self._unions += 1
            if rules.unions and self._unions > rules.unions:
                raise Unsupported(f"the schema has more than {rules.unions} values of a union type")
        if is_sequence(node.get("anyOf")):
            node["anyOf"] = [self.node(inner, depth) for inner in node["anyOf"]]
        if "prefixItems" in node:
            node["prefixItems"] = [self.node(inner, depth + 1) for inner in node["prefixItems"]]
        listed = _has_type(node, "array") and "prefixItems" not in node
        if listed or "items" in node:
            node["items"] = self.node(node.get("items"), depth + 1)
        node |= self._definitions(node, depth)
        return self._described(node)

    def _definitions(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        return {
            key: {name: self.node(inner, 0) for name, inner in node[key].items()}
            for key in ("$defs", "definitions")
            if is_object(node.get(key))
        }

    def _combine(self, node: dict[str, Any]) -> None:
        if "oneOf" in node:
            node["anyOf"] = node.pop("oneOf")
            node.pop("discriminator", None)
        members: Any = node.pop("allOf", None)
        if is_sequence(members) and len(members) == 1 and is_object(members[0]):
            if "$ref" in members[0]:
                node.clear()
            for key, value in members[0].items():
                node.setdefault(key, value)
        elif members:
            raise Unsupported("the schema combines several with 'allOf'")

    def _tuple(self, node: dict[str, Any]) -> None:
        """Writes a tuple as an array of its members' types, if tuples are unsupported."""
        members = node.get("prefixItems")
        if not is_sequence(members) or "prefixItems" in self._rules.keywords:
            if node.get("items") is False:
                del node["items"]
            return
        del node["prefixItems"]
        distinct = [each for at, each in enumerate(members) if each not in members[:at]]
        node["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        node.setdefault("minItems", len(members))
        node.setdefault("maxItems", len(members))

    def _constants(self, node: dict[str, Any]) -> None:
        values = node.get("enum")
        for value in values if is_sequence(values) else ():
            if is_object(value) or is_sequence(value):
                raise Unsupported("an 'enum' of the schema holds objects or arrays")
        if self._rules.constants:
            return
        if "const" in node:
            values = node["enum"] = [node.pop("const")]
        numbers = (str, int, float)
        if values and not all(isinstance(v, numbers) and v is not True for v in values):
            node.pop("enum", None)

    def _object(self, node: dict[str, Any], depth: int) -> None:
        if not _has_type(node, "object") and "properties" not in node:
            return
        properties: Any = node.get("properties")
        free: Any = node.get("additionalProperties")
        # An open object without properties holds anything.
        loose = free is not False and (free or not properties)
        if "patternProperties" in node or (self._rules.closed and loose):
            raise Unsupported("the schema has an object with free keys")
        named: dict[str, Any] = properties if is_object(properties) else {}
        self._properties += len(named)
        if self._rules.properties and self._properties > self._rules.properties:
            raise Unsupported(f"the schema has more than {self._rules.properties} properties")
        required = _strings(node.get("required"))
        for name, inner in named.items():
            if name in required:
                continue
            if self._rules.all_required:
                if not is_object(inner) or "default" not in inner:
                    raise Unsupported(f"{name!r} may be absent and has no default")
                required.append(name)
            else:
                self._optional += 1
        if self._rules.optional and self._optional > self._rules.optional:
            raise Unsupported(
                f"the schema has more than {self._rules.optional} optional properties"
            )
        if named:
            node["properties"] = {n: self.node(inner, depth + 1) for n, inner in named.items()}
            node["required"] = required
        if self._rules.closed:
            node["additionalProperties"] = False
        elif is_object(free):
            node["additionalProperties"] = self.node(free, depth + 1) if free else True

    def _described(self, node: dict[str, Any]) -> dict[str, Any]:
        """Moves bounds that the provider does not support into the description."""
        rules = self._rules
        kept: dict[str, Any] = {}
        said: list[str] = []
        for key, value in node.items():
            known = key in rules.keywords
            if key == "format":
                known = known and value in rules.formats
            if key == "minItems" and rules.most_items is not None:
                known = known and value <= rules.most_items
            if known:
                kept[key] = value
            elif key in _BOUNDS:
                said.append(f"{key}: {msgspec.json.encode(value).decode()}")
        if said:
            parts: Iterable[str] = (str(kept.get("description") or ""), f"({', '.join(said)})")
            kept["description"] = " ".join(part for part in parts if part)
        return kept


_BOUNDS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"}
    | {"format", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
    | {"minProperties", "maxProperties"}
)
