"""Questions that an MCP server asks during a call, and their answers: forms, sampling, roots.

In the 2026 protocol a call returns questions and a sealed state, and is repeated with the answers.
In older versions the server asks during the call; the call is cancelled and repeated when the
answer is known. In both cases questions are put one at a time, and the log holds everything that is
needed to continue. Forms never ask for secrets.

Questions of older versions do not name their call. With a single running call (`OpenCalls`) it is
known. A question during several calls is cancelled, and later calls run one at a time.

Forms (elicitation) go to the user. `ServerInputs` holds the optional rest. *Roots* are the folders
that the developer allowed; they are sent without approval. *Sampling* is an answer of the run's own
model, in a child run and within the run's limits. Each sampling request needs the approval of the
user, who reads the server's prompt.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import msgspec

from taofold.bridges.mcp.client.elicited_form import options, plain_form
from taofold.bridges.mcp.client.secret_requests import secret_asked
from taofold.bridges.mcp.sdk import load, plain
from taofold.core.json_values import is_array, is_object
from taofold.core.text import quoted, shorten, visible, visible_line
from taofold.network import ascii_host, parse_address
from taofold.tools import InputRequired, ModelAnswer, ModelQuestion, PersonAnswer
from taofold.tools.forms import filled_form

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
_LONGEST: Final = 200_000
"""Maximum characters of a sampling prompt."""
_ROLES: Final = ("user", "assistant")

Sample: TypeAlias = Callable[[ModelQuestion], Awaitable[ModelAnswer]]


class Unaskable(Exception):
    """The server requests input that is not allowed. The message is for the model."""


@dataclass(frozen=True, slots=True)
class ServerInputs:
    """The inputs that one server may request."""

    roots: tuple[Path, ...] = ()
    sampling: bool = False

    def allow(self, method: str) -> None:
        """Checks that a request is allowed.

        Raises:
            Unaskable: It is not offered; the message has the option to change.
        """
        match method:
            case "elicitation/create":
                return
            case "sampling/createMessage":
                if not self.sampling:
                    raise Unaskable(
                        f"the server wants {method}, which is not offered: "
                        "sampling=True lets it ask a person for an answer of the run's model"
                    )
            case "roots/list":
                if not self.roots:
                    raise Unaskable(
                        f"the server wants {method}, which is not offered: "
                        "roots=[folder] tells it of folders"
                    )
            case _:
                raise Unaskable(f"the server wants {visible(method)[:100]}, which is not offered")

    def listed(self) -> dict[str, Any]:
        """Returns the folders in the protocol's form."""
        return {
            "roots": [
                {"uri": folder.resolve().as_uri(), "name": folder.resolve().name or "/"}
                for folder in self.roots
            ]
        }

    def folders(self) -> Any:
        """Returns the folders as a result of the package."""
        types = load("mcp.types")
        roots = [types.Root(**root) for root in self.listed()["roots"]]
        return types.ListRootsResult(roots=roots)


def question_of(params: Mapping[str, Any]) -> ModelQuestion:
    """Returns the model question in a sampling request.

    Raises:
        Unaskable: It has content that is not passed on.
    """
    if params.get("tools"):
        raise Unaskable("the server wants a model to use tools, which is not offered")
    messages: Any = params.get("messages")
    turns = [_message(message) for message in messages] if is_array(messages) else []
    if not turns or turns[-1][0] != "user" or not turns[-1][1].strip():
        raise Unaskable("the server wants an answer of a model and asks it nothing")
    system = str(params.get("systemPrompt") or "")
    if len(system) + sum(len(text) for _, text in turns) > _LONGEST:
        raise Unaskable("the server wants a model to read more than it is given")
    tokens, temperature = params.get("maxTokens"), params.get("temperature")
    return ModelQuestion(
        prompt=turns[-1][1],
        system=system,
        history=tuple(turns[:-1]),
        max_tokens=tokens if isinstance(tokens, int) and tokens > 0 else 0,
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
    )


def _message(message: Any) -> tuple[str, str]:
    content: Any = message.get("content") if is_object(message) else None
    blocks: Sequence[Any] = content if is_array(content) else [content]
    texts: list[str] = []
    for block in blocks:
        if not is_object(block) or block.get("type") != "text":
            raise Unaskable("the server wants a model to see what is no text: not offered")
        texts.append(str(block.get("text", "")))
    role = str(message.get("role"))
    if role not in _ROLES:
        raise Unaskable("the server speaks to a model in a role that there is not")
    return role, "\n".join(texts)


def sampling_text(server: str, params: Mapping[str, Any]) -> str:
    """Returns the text that the user reads before approving a sampling request.

    Raises:
        Unaskable: It has content that is not passed on.
    """
    question = question_of(params)
    lines = [f"the server {server!r} wants the model of this run to answer, at your cost"]
    if question.max_tokens:
        lines[0] += f" ({question.max_tokens} tokens at most)"
    parts = [("system", question.system), *question.history, ("user", question.prompt)]
    lines[0] += ". It reads what follows and nothing of the run; the server gets the answer."
    # Shown in full: the stored state of a question limits its size.
    lines += [f"{role}:\n{quoted(text)}" for role, text in parts if text]
    return "\n".join([*lines, "Approve to have it answered; deny to refuse."])


async def sampling_answer(params: Mapping[str, Any], sample: Sample | None) -> dict[str, Any]:
    """Returns the model's answer to an approved request, in the protocol's form.

    Raises:
        Unaskable: There is no answer.
    """
    if sample is None:
        raise Unaskable("the server wants an answer of a model, and no run is there that has one")
    try:
        answer = await sample(question_of(params))
    except ValueError as error:
        raise Unaskable(f"the server wants an answer of a model: {error}") from error
    return {
        "role": "assistant",
        "content": {"type": "text", "text": answer.text},
        "model": answer.model,
        "stopReason": "endTurn",
    }


def refusal(reason: str) -> Any:
    """Returns the error that refuses a request in older protocol versions."""
    return load("mcp.types").ErrorData(code=-1, message=reason)


def method_of(request: Any) -> tuple[str, dict[str, Any]]:
    """Returns method and parameters of a request within a result."""
    whole = plain(request)
    if not is_object(whole):
        return str(whole), {}
    params: Any = whole.get("params")
    return str(whole.get("method")), params if is_object(params) else {}


MESSAGE: Final = 2_000
KEY: Final = "mcp"
REPEATS: Final = (
    "(This server asks while it works. Nobody was there, so the call was cancelled: answering "
    "calls the tool again from its beginning, and what it did before it asked happens twice.)"
)


@dataclass(slots=True)
class PendingQuestions:
    """The questions of one call: `now` is being asked, `done` are answered."""

    server: str
    asks: dict[str, dict[str, Any]]
    sealed: str | None = None
    legacy: bool = False
    done: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    now: str = ""
    repeats: bool = False
    """True if the call was cancelled, so that the answer repeats it."""
    task: str = ""
    """Id of the asking task, if the call became a task."""
    methods: dict[str, str] = field(default_factory=dict[str, str])
    """The protocol's method of each question that is no elicitation."""

    def next(self, wrong: str = "") -> None:
        """Asks the next open question; returns if there is none.

        Raises:
            InputRequired: A question is open.
            Unaskable: The question is not allowed.
        """
        for key, params in self.asks.items():
            if key in self.done:
                continue
            self.now = key
            if self.methods.get(key) == SAMPLE:
                question, form = sampling_text(self.server, params), dict[str, Any]()
            else:
                question, form = elicitation_text(self.server, params)
            if self.repeats:
                question += f"\n{REPEATS}"
            if wrong:
                question = f"{wrong} Once more: {question}"
            raise InputRequired(question, form=form, state={KEY: asdict(self)})

    def hear(self, answer: PersonAnswer) -> None:
        """Records the user's answer to the question `now`.

        Raises:
            InputRequired: The answer does not match the form, so it is asked again.
        """
        params = self.asks[self.now]
        if not answer.accepted:
            self.done[self.now] = {"action": "decline"}
            return
        if params.get("mode") == "url" or self.methods.get(self.now) == SAMPLE:
            self.done[self.now] = {"action": "accept"}
            return
        content, wrong = filled_form(plain_form(params["requestedSchema"]), answer.text)
        if wrong:
            self.next(wrong)
        self.done[self.now] = {"action": "accept", "content": content}

    async def responses(self, sample: Sample | None) -> dict[str, dict[str, Any]]:
        """Returns the answers by the server's keys, in the protocol's form.

        Raises:
            Unaskable: The user or the model gave no answer.
        """
        responses: dict[str, dict[str, Any]] = {}
        for key, done in self.done.items():
            if self.methods.get(key) != SAMPLE:
                responses[key] = done
            elif done["action"] == "accept":
                responses[key] = await sampling_answer(self.asks[key], sample)
            else:
                raise Unaskable("a person did not let the server use the run's model")
        return responses


def pending_questions(answer: PersonAnswer | None) -> PendingQuestions | None:
    """Returns the server's questions that `answer` belongs to, or None."""
    state: Any = None if answer is None else answer.state
    if not is_object(state) or KEY not in state:
        return None
    return msgspec.convert(state[KEY], PendingQuestions)


def questions_of(
    server: str, requests: Mapping[str, Any], offer: ServerInputs, **more: Any
) -> PendingQuestions:
    """Returns the questions of a server of the 2026 protocol. Roots are answered at once.

    Raises:
        Unaskable: A request is not offered.
    """
    question = PendingQuestions(server, {}, **more)
    for key, request in requests.items():
        method, params = method_of(request)
        offer.allow(method)
        question.asks[str(key)] = params
        if method != ELICIT:
            question.methods[str(key)] = method
        if method == ROOTS:
            question.done[str(key)] = offer.listed()
    return question


_RELEVANT: Final = (
    *("mode", "message", "requestedSchema", "url"),
    *("messages", "systemPrompt", "maxTokens", "temperature"),
)
"""Fields that identify a question, without ids, which change with every call."""


def question_key(params: Any) -> str:
    """Returns a key that stays the same when the call of an older protocol version is repeated."""
    fields = plain(params)
    relevant = {name: fields[name] for name in _RELEVANT if name in fields}
    return blake2b(msgspec.json.encode(relevant, order="sorted"), digest_size=8).hexdigest()


def elicitation_text(server: str, request: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the question's text for the user, and the form of the answer.

    Raises:
        Unaskable: It asks for a secret, or its link is no web page.
    """
    message = quoted(shorten(str(request.get("message", "")), MESSAGE))
    if request.get("mode") == "url":
        return _linked(server, message, str(request.get("url", ""))), {}
    schema: Any = request.get("requestedSchema")
    if not is_object(schema):
        raise Unaskable("the server asks a person for something without saying what")
    try:
        form = plain_form(schema)
    except ValueError as error:
        raise Unaskable(
            f"the server asks a person with a form that is not asked: {error}"
        ) from None
    properties: dict[str, Any] = form["properties"]
    kind = secret_asked(str(request.get("message", "")), properties)
    if kind:
        raise Unaskable(
            f"the server asks a person for a {kind}: secrets are not passed on this way (a server "
            "must use a page of its own, mode url, or its environment)"
        )
    fields = "\n".join(_field(name, rules) for name, rules in properties.items())
    question = f"the server {server!r} asks:\n{message}"
    if fields:
        question += f"\nIt wants:\n{quoted(shorten(fields, MESSAGE))}"
    return question, form if properties else {}


def _linked(server: str, message: str, url: str) -> str:
    parts = urlsplit(url)
    # Invisible characters could show another address than the one that opens.
    if parts.scheme not in ("http", "https") or not parts.hostname or visible_line(url) != url:
        raise Unaskable(f"the server wants a person to open {visible(url)[:200]!r}: not a web page")
    host = ascii_host(parts.hostname)
    near = parse_address(parts.hostname)
    # Browsers accept `2130706433` as an address; link-local addresses serve cloud metadata.
    odd = near is None and re.search(r"(?:^|\.)(?:0x[0-9a-f]*|\d+)\.?$", host, re.IGNORECASE)
    if odd or (near is not None and near.is_link_local):
        raise Unaskable(f"the server wants a person to open {url[:200]!r}: that is no page of its")
    if not host:
        raise Unaskable(f"the server wants a person to open {url[:200]!r}: that host is no name")
    # Shown in the browser's ASCII form, because other alphabets have look-alike letters.
    user, at, _ = parts.netloc.rpartition("@")
    port = "" if parts.port is None else f":{parts.port}"
    address = urlunsplit(parts._replace(netloc=f"{user}{at}{host}{port}"))
    written = "" if host == parts.hostname else f", written {parts.hostname!r}"
    return (
        f"the server {server!r} wants you to open a page on {host!r}{written}: {address}\n"
        f"It says:\n{message}\nApprove when you have done it there; deny to refuse."
    )


def _field(name: str, rules: Any) -> str:
    text = f"{visible_line(name)}: {rules['type']}"
    if values := options(rules):
        text += f", one of {', '.join(map(str, values))}"
    if "default" in rules:
        text += f", default {rules['default']!r}"
    description = rules.get("description") or rules.get("title")
    return visible_line(f"{text} ({str(description)[:200]})" if description else text)


Ask: TypeAlias = Callable[[InputRequired], Awaitable[PersonAnswer]]


@dataclass(slots=True)
class OpenCall:
    """One running call: its answers, and a question that could not be answered."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    open_request: dict[str, Any] | None = None
    method: str = ELICIT
    key: str = ""
    ask: Ask | None = None
    """Asks the present user; None if there is none."""
    sample: Sample | None = None
    """Asks the run's model; None without a run."""


class OpenCalls:
    """The running calls of the server `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._under_way: list[OpenCall] = []
        self._alone = asyncio.Lock()
        self._one_by_one = False

    async def perform(self, open_call: OpenCall, call: Callable[[], Awaitable[Any]]) -> Any:
        """Returns the result of `call`, during which the server may ask questions."""
        if not self._one_by_one:
            return await self._one(open_call, call)
        async with self._alone:
            return await self._one(open_call, call)

    async def _one(self, open_call: OpenCall, call: Callable[[], Awaitable[Any]]) -> Any:
        self._under_way.append(open_call)
        try:
            return await call()
        finally:
            self._under_way.remove(open_call)

    async def asked(self, _context: Any, params: Any) -> Any:
        """Handles an elicitation: returns a recorded answer, the present user's answer, or
        "cancel".
        """
        result: Any = load("mcp.types").ElicitResult
        # The asking call is unknown, so the question is cancelled and later calls run one at a
        # time.
        if len(self._under_way) != 1:
            self._one_by_one = True
            return result(action="cancel")
        [open_call], key = self._under_way, question_key(params)
        if key in open_call.answers or await self._answered(open_call, key, plain(params)):
            return result(**open_call.answers[key])
        open_call.key, open_call.open_request, open_call.method = key, plain(params), ELICIT
        return result(action="cancel")

    async def sampled(self, _context: Any, params: Any) -> Any:
        """Handles a sampling request: returns the model's answer if the user approves, else an
        error.
        """
        if len(self._under_way) != 1:
            self._one_by_one = True
            return refusal("several calls are under way: call once more")
        [open_call], fields = self._under_way, plain(params)
        key = question_key(fields)
        if key not in open_call.answers and not await self._answered(
            open_call, key, fields, SAMPLE
        ):
            open_call.key, open_call.open_request, open_call.method = key, fields, SAMPLE
            return refusal("nobody is there who could allow it now")
        if open_call.answers[key]["action"] != "accept":
            return refusal("a person did not let the server use the run's model")
        try:
            answer = await sampling_answer(fields, open_call.sample)
        except Unaskable as error:
            return refusal(str(error))
        return load("mcp.types").CreateMessageResult.model_validate(answer)

    async def _answered(
        self, open_call: OpenCall, key: str, params: dict[str, Any], method: str = ELICIT
    ) -> bool:
        """Asks the present user while the server waits. Returns whether there is an answer."""
        if open_call.ask is None:
            return False
        question = PendingQuestions(
            self._name,
            {key: params},
            legacy=True,
            done=dict(open_call.answers),
            methods={} if method == ELICIT else {key: method},
        )
        try:
            await put(question, open_call.ask)
        except (InputRequired, Unaskable, ValueError):
            return False  # no answer now, or the error is reported after the call
        open_call.answers = question.done
        return True


async def put(question: PendingQuestions, ask: Ask) -> None:
    """Asks the present user each open question.

    Raises:
        InputRequired: There is no answer now.
        Unaskable: A question is not allowed.
        ValueError: An answer cannot be stored.
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
