"""What an MCP server wants to know from a person in the middle of a call.

In the era of 2026 a call ends in questions and a sealed state, and is made again with the answers.
In the older era the server asks while it works; such a call is cancelled and, once somebody has
answered, made again with the answer at hand. Either way the questions are put one at a time, and
all that is needed to go on lies in the log. Nothing secret is ever asked for in a form.

Questions of the older era do not say which call they belong to. While one call is under way
(`Flights`) that is clear; a question among several is cancelled, and from then on the calls go one
by one.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from taofold.bridges.mcp import inputs as inputs
from taofold.bridges.mcp.definitions import checker
from taofold.bridges.mcp.inputs import SAMPLE, ServerInputs, Unaskable
from taofold.bridges.mcp.package import load, plain
from taofold.core.json_values import is_object
from taofold.core.text import visible
from taofold.policy.redaction import named
from taofold.tools import InputRequired, PersonAnswer

MESSAGE: Final = 2_000
_LIKE_A_SECRET: Final = "x" * 12
_WORDS: Final = (
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "api key",
    "private key",
)
_TRUE: Final = frozenset({"y", "yes", "true", "1", "on"})
_FALSE: Final = frozenset({"n", "no", "false", "0", "off"})
KEY: Final = "mcp"
REPEATS: Final = (
    "(This server asks while it works. Nobody was there, so the call was cancelled: answering "
    "calls the tool again from its beginning, and what it did before it asked happens twice.)"
)


@dataclass(slots=True)
class PendingQuestions:
    """The questions of one call: `now` is put to a person, `done` are answered."""

    server: str
    asks: dict[str, dict[str, Any]]
    sealed: str | None = None
    legacy: bool = False
    done: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    now: str = ""
    repeats: bool = False
    """Was the call cancelled, so that answering makes it again?"""
    task: str = ""
    """The task that asks, if the call became one."""
    methods: dict[str, str] = field(default_factory=dict[str, str])
    """What kind of question each is, by the protocol's method, if it is no elicitation."""

    def next(self, wrong: str = "") -> None:
        """Put the next open question; return if there is none.

        Raises:
            InputRequired: there is one.
            Unaskable: it must not be asked.
        """
        for key, params in self.asks.items():
            if key in self.done:
                continue
            self.now = key
            if self.methods.get(key) == SAMPLE:
                question, form = inputs.worded(self.server, params), dict[str, Any]()
            else:
                question, form = worded(self.server, params)
            if self.repeats:
                question += f" {REPEATS}"
            if wrong:
                question = f"{wrong} Once more: {question}"
            raise InputRequired(question, form=form, state={KEY: asdict(self)})

    def hear(self, answer: PersonAnswer) -> None:
        """Take in what a person said to the question `now`.

        Raises:
            InputRequired: it does not fit the form: asked again.
        """
        params = self.asks[self.now]
        if not answer.accepted:
            self.done[self.now] = {"action": "decline"}
            return
        if params.get("mode") == "url" or self.methods.get(self.now) == SAMPLE:
            self.done[self.now] = {"action": "accept"}
            return
        content, wrong = filled(params.get("requestedSchema", {}), answer.text)
        if wrong:
            self.next(wrong)
        self.done[self.now] = {"action": "accept", "content": content}

    async def responses(self, sample: inputs.Sample | None) -> dict[str, dict[str, Any]]:
        """What the server gets, by its own keys, as the protocol tells it.

        Raises:
            Unaskable: a person, or the model, gave no answer that it could get.
        """
        given: dict[str, dict[str, Any]] = {}
        for key, done in self.done.items():
            if self.methods.get(key) != SAMPLE:
                given[key] = done
            elif done["action"] == "accept":
                given[key] = await inputs.answered(self.asks[key], sample)
            else:
                raise Unaskable("a person did not let the server use the run's model")
        return given


def recalled(answer: PersonAnswer | None) -> PendingQuestions | None:
    """The questions that `answer` is about, if it is about a server's."""
    state: Any = None if answer is None else answer.state
    if not is_object(state) or KEY not in state:
        return None
    return msgspec.convert(state[KEY], PendingQuestions)


def requested(
    server: str, requests: Mapping[str, Any], offer: ServerInputs, **more: Any
) -> PendingQuestions:
    """What a server of the era of 2026 wants to know, by its own keys. Folders are told at once.

    Raises:
        Unaskable: it asks for something that is not offered.
    """
    question = PendingQuestions(server, {}, **more)
    for key, request in requests.items():
        method, params = inputs.method_of(request)
        offer.allow(method)
        question.asks[str(key)] = params
        if method != inputs.ELICIT:
            question.methods[str(key)] = method
        if method == inputs.ROOTS:
            question.done[str(key)] = offer.listed()
    return question


_RELEVANT: Final = (
    *("mode", "message", "requestedSchema", "url"),
    *("messages", "systemPrompt", "maxTokens", "temperature"),
)
"""The fields of a question, without ids, which are new with every call."""


def identity(params: Any) -> str:
    """The same for the same question of the older era, when the call is made again."""
    fields = plain(params)
    # A question that was stored by an earlier release must be known again: no new empty fields.
    relevant = {
        name: fields.get(name) for name in _RELEVANT if name in _RELEVANT[:4] or name in fields
    }
    return blake2b(msgspec.json.encode(relevant, order="sorted"), digest_size=8).hexdigest()


def worded(server: str, said: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The question as a person reads it, and the form of the answer.

    Raises:
        Unaskable: it asks for a secret, or leads to something that is no web page.
    """
    message = visible(str(said.get("message", "")))[:MESSAGE]
    if said.get("mode") == "url":
        return _linked(server, message, str(said.get("url", ""))), {}
    schema: Any = said.get("requestedSchema")
    if not is_object(schema) or not is_object(schema.get("properties", {})):
        raise Unaskable("the server asks a person for something without saying what")
    properties: Any = schema.get("properties", {})
    secret = [str(name) for name, rules in properties.items() if _secret(str(name), rules)]
    if secret:
        raise Unaskable(
            f"the server asks a person for {', '.join(secret)[:200]}: secrets are not passed on "
            "this way (a server must use a page of its own, or its environment)"
        )
    fields = "; ".join(_field(str(name), rules) for name, rules in properties.items())
    question = f"the server {server!r} asks: {message}"
    if fields:
        question += f" [{fields[:MESSAGE]}]"
    if not properties:
        return question, {}
    return question, {"type": "object", **schema}


def _linked(server: str, message: str, url: str) -> str:
    parts = urlsplit(url)
    # Invisible characters could show a person another address than the one that opens.
    if parts.scheme not in ("http", "https") or not parts.hostname or visible(url) != url:
        raise Unaskable(f"the server wants a person to open {visible(url)[:200]!r}: not a web page")
    return (
        f"the server {server!r} wants you to open a page on {parts.hostname!r}: {url}\n"
        f"It says: {message}\nApprove when you have done it there; deny to refuse."
    )


def _secret(name: str, rules: Any) -> bool:
    words_of_name = name.replace("-", "_")
    description = " ".join(
        str(rules.get(k, "")) for k in ("title", "description", "format")
    ).lower()
    # The redactor's own rules for names, tried with a value that looks like a secret.
    return named(words_of_name, _LIKE_A_SECRET) or any(word in description for word in _WORDS)


def _field(name: str, rules: Any) -> str:
    text = f"{visible(name)}: {rules.get('type', 'text')}"
    options = rules.get("enum") or [option.get("const") for option in rules.get("oneOf", ())]
    if options:
        text += f", one of {', '.join(map(str, options))}"
    if "default" in rules:
        text += f", default {rules['default']!r}"
    description = rules.get("description") or rules.get("title")
    return f"{text} ({visible(str(description))[:200]})" if description else text


def filled(schema: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """The form filled with an answer, or what is wrong with the answer.

    An answer is JSON, or the plain value if the form has one field; "" takes the defaults.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    values: Any = {}
    if text.strip():
        try:
            values = json.loads(text)
        except ValueError:
            values = text.strip()
        if not is_object(values):
            required = [name for name in properties if name in schema.get("required", ())]
            single = required if len(required) == 1 else list(properties)
            if len(single) != 1:
                return {}, f"Answer with JSON that holds {', '.join(properties)}."
            values = {single[0]: _valued(properties[single[0]], text.strip())}
    content = {n: r["default"] for n, r in properties.items() if is_object(r) and "default" in r}
    content |= {str(name): value for name, value in values.items()}
    odd = [name for name in content if name not in properties]
    if odd:
        return {}, f"The form has no {odd[0]!r}, only {', '.join(properties)}."
    wrong = checker({**schema})(content)
    return content, f"That does not fit: {wrong}." if wrong else ""


def _valued(rules: Any, text: str) -> Any:
    match rules.get("type"):
        case "boolean" if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        case "integer" | "number" | "array" | "boolean":
            try:
                return json.loads(text)
            except ValueError:
                return text
        case _:
            return text


Ask: TypeAlias = Callable[[InputRequired], Awaitable[PersonAnswer]]


@dataclass(slots=True)
class Flight:
    """One call: what is answered, and what was asked and could not be answered."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    asked: dict[str, Any] | None = None
    method: str = inputs.ELICIT
    key: str = ""
    ask: Ask | None = None
    """Asks the person who is there, if somebody is."""
    sample: inputs.Sample | None = None
    """Asks the run's model, if there is a run."""


class Flights:
    """The calls under way with the server `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._under_way: list[Flight] = []
        self._alone = asyncio.Lock()
        self._one_by_one = False

    async def flown(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> Any:
        """What `call` gives; meanwhile the server may ask."""
        if not self._one_by_one:
            return await self._one(flight, call)
        async with self._alone:
            return await self._one(flight, call)

    async def _one(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> Any:
        self._under_way.append(flight)
        try:
            return await call()
        finally:
            self._under_way.remove(flight)

    async def asked(self, _context: Any, params: Any) -> Any:
        """The server asks: what is on record, what the person who is there says, or "cancel"."""
        result: Any = load("mcp.types").ElicitResult
        # Nobody can say whose question it is: cancelled,
        # and from now on the calls go one by one.
        if len(self._under_way) != 1:
            self._one_by_one = True
            return result(action="cancel")
        [flight], key = self._under_way, identity(params)
        if key in flight.answers or await self._answered(flight, key, plain(params)):
            return result(**flight.answers[key])
        flight.key, flight.asked, flight.method = key, plain(params), inputs.ELICIT
        return result(action="cancel")

    async def sampled(self, _context: Any, params: Any) -> Any:
        """The server wants an answer of a model: with a person's word, else an error."""
        if len(self._under_way) != 1:
            self._one_by_one = True
            return inputs.refused("several calls are under way: call once more")
        [flight], fields = self._under_way, plain(params)
        key = identity(fields)
        if key not in flight.answers and not await self._answered(flight, key, fields, SAMPLE):
            flight.key, flight.asked, flight.method = key, fields, SAMPLE
            return inputs.refused("nobody is there who could allow it now")
        if flight.answers[key]["action"] != "accept":
            return inputs.refused("a person did not let the server use the run's model")
        try:
            answer = await inputs.answered(fields, flight.sample)
        except Unaskable as error:
            return inputs.refused(str(error))
        return load("mcp.types").CreateMessageResult.model_validate(answer)

    async def _answered(
        self, flight: Flight, key: str, params: dict[str, Any], method: str = inputs.ELICIT
    ) -> bool:
        """Has the person who is there answered the question, while the server waits?"""
        if flight.ask is None:
            return False
        question = PendingQuestions(
            self._name,
            {key: params},
            legacy=True,
            done=dict(flight.answers),
            methods={} if method == inputs.ELICIT else {key: method},
        )
        try:
            await put(question, flight.ask)
        except (InputRequired, Unaskable, ValueError):
            return False  # nobody answers now, or it is said once the call is over
        flight.answers = question.done
        return True


async def put(question: PendingQuestions, ask: Ask) -> None:
    """Put each open question to the person who is there.

    Raises:
        InputRequired: nobody answers now.
        Unaskable: it must not be asked.
        ValueError: it cannot be kept.
    """
    wants: InputRequired | None = None
    while True:
        try:
            if wants is not None:
                question.hear(await ask(wants))
                wants = None
            question.next()
        except InputRequired as again:
            if again is wants:
                raise
            wants = again
        else:
            return
