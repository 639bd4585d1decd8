"""Ollama's native `/api/chat`: requests, and replies as a whole or as lines of JSON.

Also reduces JSON Schema to the part that Ollama keeps of a tool's parameters. Unlike its OpenAI
endpoint, this one can set the context size and refuse longer prompts. By default the server
silently drops the oldest messages, the goal first. It needs no key and costs nothing. Thinking is
sent back with its reply, because some models' templates use it.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

import msgspec
from typing_extensions import Unpack

from taofold.core.content import Conversation, MediaPart, Part, TextPart, ThinkingPart, parts_of
from taofold.core.errors import ModelError
from taofold.core.json_values import at_pointer, is_object
from taofold.core.reply import finish_of
from taofold.core.values import JSON, Effort, Profile, Reply, Usage
from taofold.models.capabilities import UNKNOWN, Abilities, rules_for
from taofold.models.decoding import arguments_text
from taofold.models.encoding import (
    NO_RESULT,
    acceptable_parts,
    arguments_of,
    as_text,
    batch,
    blob,
    content_for,
    encode,
    flat,
    follows_its_call,
    more_entries,
    pending,
    present,
    sampling,
)
from taofold.models.endpoint import ReplyReader
from taofold.models.prices import FREE
from taofold.models.remote import (
    Connection,
    ModelOptions,
    ModelTurn,
    RemoteModel,
    check_choice,
    connection,
    effort_at_most,
    endpoint,
)
from taofold.models.replies import LineDecoder, ReplyContext, decode, reported_error
from taofold.models.wire_names import WireTools
from taofold.runtime.model import Request, Speaker


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: Any = None


class _Call(msgspec.Struct, frozen=True):
    function: _Function = _Function()
    id: str = ""


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Answer(msgspec.Struct):
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)


class OllamaReader:
    """Reads one answer, whole or as lines of JSON. The `ReplyReader` of this format."""

    def __init__(self, frame: ReplyContext) -> None:
        self._frame = frame
        self._lines = LineDecoder(self._line)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._last: _Answer | None = None

    def whole(self, body: bytes) -> Reply:
        """Reads an answer that was not streamed."""
        self._line(body)
        return self.close()

    @property
    def complete(self) -> bool:
        """True if the last line has arrived."""
        return self._last is not None

    def feed(self, chunk: bytes) -> bool:
        """Takes bytes of a stream. Returns True if the last line has arrived."""
        self._lines.feed(chunk)
        return self._last is not None

    def close(self) -> Reply:
        """Ends the stream and returns the reply."""
        self._lines.close()
        frame, last = self._frame, self._last
        if last is None:
            raise frame.broken_off()
        parts: list[Part] = []
        thinking, text = "".join(self._thinking), "".join(self._text)
        parts += [ThinkingPart(thinking, "thinking")] if thinking else []
        parts += [TextPart(text)] if text else []
        parts += [
            frame.call(
                call.function.name, arguments_text(call.function.arguments) or "{}", call.id, index
            )
            for index, call in enumerate(self._calls)
        ]
        return frame.reply(
            parts,
            frame.usage(last.prompt_eval_count or 0, last.eval_count or 0, 0),
            finish_of(last.done_reason or "stop"),
        )

    def charge(self, error: BaseException) -> None:
        """Reports the consumption of this attempt, which `error` ended without a reply."""
        parts = (TextPart("".join(self._text)), ThinkingPart("".join(self._thinking)))
        self._frame.charge(error, lambda: self._frame.reply(parts, Usage(), "").usage)

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        answer = decode(self._frame, _ANSWER, line)
        if answer.error:
            # Ollama reports errors in the middle of a stream whose status was 200.
            raise reported_error(self._frame, answer.error)
        if answer.message is None and not answer.done:
            raise self._frame.empty("it holds no message", line)
        self._take(answer.message or _Message())
        if answer.done:
            self._last = answer

    def _take(self, message: _Message) -> None:
        if message.content:
            self._text.append(message.content)
            self._frame.speak(message.content)
        if message.thinking:
            self._thinking.append(message.thinking)
        self._calls += message.tool_calls or ()


_URL: Final = "http://127.0.0.1:11434"
_NO_THINKING: Final = "does not support thinking"
_LARGEST: Final = 32_768
"""Maximum default context, because its memory is reserved at once."""


class OllamaModel(RemoteModel):
    """A model on a local Ollama. Its window is the requested context."""

    wire = "ollama"

    def __init__(self, connection: Connection, rules: Abilities) -> None:
        super().__init__(connection)
        self._rules = rules
        self._thinks = True

    def _version(self) -> Any:
        return self._thinks

    async def _ask(self, request: Request, speaker: Speaker | None) -> Reply:
        """Sends the request, without thinking if the model does not support it."""
        try:
            return await super()._ask(request, speaker)
        except ModelError as error:
            if not self._thinks or error.status != 400 or _NO_THINKING not in str(error):
                raise
            self._thinks = False
            return await super()._ask(request, speaker)

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        settings = turn.settings
        # Without it Ollama uses a small default and drops the beginning of a longer prompt.
        options: dict[str, Any] = {"num_ctx": self.profile.window}
        options |= present({"num_predict": settings.max_tokens}) | sampling(settings)
        options |= present({"stop": turn.request.stop})
        body: dict[str, Any] = {
            "model": self.connection.model,
            "stream": turn.streaming,
            "options": options,
            # A prompt that does not fit is then an error, and the run shortens what it can. The
            # server would drop the goal first.
            "truncate": False,
            "shift": False,
        }
        if settings.effort is not None and self._thinks:
            body["think"] = self._think(settings.effort)
        elif settings.effort is not None:
            effort_at_most(settings.effort, (), notes, self.name)
        if turn.form is not None:
            body["format"] = turn.form.schema
        # There is no tool choice here: if no call is allowed, no tool is offered.
        if turn.wire.tools and turn.request.allowed != ():
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": _inlined(tool.parameters, tool.parameters, ("#",), count(1)),
                    },
                }
                for tool in turn.wire.tools
            ]
        return encode({**body, **settings.extra})[:-1] + b',"messages":['

    def _think(self, effort: Effort) -> bool | str:
        if "gpt-oss" not in self.connection.model:
            return effort != "none"
        # It always thinks. The server itself maps "max" to "high".
        return {"none": "low", "minimal": "low", "xhigh": "high"}.get(effort, effort)

    def _messages(self, turn: ModelTurn) -> Sequence[bytes]:
        conversation, native = turn.request.conversation, self.profile.native_tools
        behind = self._behind(conversation, len(conversation), turn.wire) if native else ()
        ending = more_entries(map(encode, behind), turn.request.blobs)
        return [*self._written(turn), *ending, b"]}"]

    def _reader(self, frame: ReplyContext) -> ReplyReader:
        return OllamaReader(frame)

    def _native(self, conversation: Conversation, index: int, wire: WireTools) -> bytes:
        """Returns a message for a model with native tools. Calls hold objects, results name their
        tool.
        """
        message = conversation[index]
        if follows_its_call(conversation, index):
            calls = {call.id: call.name for call in pending(conversation, index)}
            entries = [
                _result(wire.name(calls[result.id]), result.text, result.id)
                for result in message.results
            ]
            return encode(entries)[1:-1]
        behind = self._behind(conversation, index, wire) if index else []
        return encode([*behind, self._entry(conversation, index, wire)])[1:-1]

    def _entry(self, conversation: Conversation, index: int, wire: WireTools) -> dict[str, Any]:
        message = conversation[index]
        if message.role != "assistant":
            role = "user" if message.role == "tool" else message.role
            return {"role": role, **self._content(message.parts)}
        entry: dict[str, Any] = {"role": "assistant", "content": message.text}
        content = content_for(conversation, index, self.issuer)
        thinking = [p.text for p in parts_of(content) if isinstance(p, ThinkingPart) and p.echo]
        if thinking:
            entry["thinking"] = "".join(thinking)
        if message.calls:
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "function": {
                        "name": wire.name(call.name),
                        "arguments": wire.arguments(call.name, arguments_of(call)),
                    },
                }
                for call in message.calls
            ]
        return entry

    def _plain(self, conversation: Conversation, index: int) -> bytes:
        """Returns a message for a model without native tools."""
        message = conversation[index]
        role = "user" if message.role == "tool" else message.role
        return encode({"role": role, **self._content(parts_of(as_text(message)))})

    def _behind(
        self, conversation: Conversation, end: int, wire: WireTools
    ) -> list[dict[str, Any]]:
        """Returns the missing results of the batch before `end`, and the images of all results.

        A result holds only text here.
        """
        before = batch(conversation, end)
        missing = [_result(wire.name(call.name), NO_RESULT, call.id) for call in before.open_calls]
        images = [part for part in before.media if self._takes(part)]
        if images:
            text = TextPart("What the tools returned:")
            missing.append({"role": "user", **self._content((text, *images))})
        return missing

    def _takes(self, part: MediaPart) -> bool:
        inputs = self.profile.inputs
        # Ollama fetches no addresses, so an image needs its bytes.
        return part.kind == "image" and not part.url and (inputs is None or "image" in inputs)

    def _content(self, parts: Sequence[Part]) -> dict[str, Any]:
        """Returns the text and the images beside it. Other media become lines of the text."""
        images: list[Any] = []
        others: list[Part] = []
        for part in flat(parts):
            if isinstance(part, MediaPart) and self._takes(part):
                images.append(blob(part))
            else:
                others.append(part)
        texts = [part.text for part in acceptable_parts(others, ()) if isinstance(part, TextPart)]
        return {"content": "".join(texts)} | present({"images": images})


def address(base: str | None = None) -> str:
    """Returns the server's address: `base`, else OLLAMA_HOST, else the default port."""
    url = base or os.environ.get("OLLAMA_HOST") or _URL
    return (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v1")


def connect(model: str, **options: Unpack[ModelOptions]) -> OllamaModel:
    """Connects to `model`, at OLLAMA_HOST or the default port.

    Raises:
        ConfigError: The name is missing, or an option is unknown.
    """
    check_choice("ollama", model, options)
    url = address(options.get("base_url"))
    key = options.get("api_key") or ""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    rules = rules_for("ollama", model)
    at = endpoint(f"{url}/api/chat", headers, key, options)
    # The window is known because it is set here. A local Ollama enforces schemas.
    window = min(rules.window or Profile().window, _LARGEST)
    tools = rules != UNKNOWN and rules.tools
    profile = replace(rules, tools=tools, schema=True, window=window, inputs=None).profile()
    connected = connection(
        "ollama", model, at, options, server=url, price=FREE, rules=rules, assumed=profile
    )
    return OllamaModel(connected, rules)


def _result(name: str, content: str, call_id: str) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_name": name,
        "tool_call_id": call_id,
        "content": content,
    }


_DROPPED: Final = frozenset(
    {"not", "if", "then", "else", "contains", "prefixItems", "patternProperties", "propertyNames"}
    | {"dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "definitions"}
)
_MOST_INLINED: Final = 2_000
"""Maximum schemas that a tool's parameters expand to. Further ones become "anything"."""


def _inlined(
    schema: JSON, root: JSON, open_references: tuple[str, ...], steps: Iterator[int]
) -> dict[str, Any]:
    """Returns `schema` in the part of JSON Schema that the server keeps of a tool's parameters.

    It refuses a property that is no object, and drops `$ref`, `oneOf`, `allOf` and `const` before
    the model sees them. Their content is therefore inlined. A recursive reference becomes
    "anything". `steps` counts the schemas, because nested references double them.
    """
    if not is_object(schema) or next(steps) > _MOST_INLINED:
        return {}
    node: dict[str, Any] = dict(schema)
    reference: Any = node.pop("$ref", None)
    node.pop("$defs", None)
    if isinstance(reference, str) and reference not in open_references:
        target = _inlined(at_pointer(root, reference), root, (*open_references, reference), steps)
        node = {**target, **node}
    for name in ("anyOf", "oneOf", "allOf"):
        branches: Any = node.pop(name, None)
        inlined = [_inlined(each, root, open_references, steps) for each in branches or ()]
        if name == "allOf" or len(inlined) == 1:
            for branch in inlined:
                node = {**branch, **node}
        elif inlined:
            node["anyOf"] = inlined
    if "const" in node:
        node["enum"] = [node.pop("const")]
    properties: Any = node.get("properties")
    if is_object(properties):
        node["properties"] = {
            name: _inlined(each, root, open_references, steps) for name, each in properties.items()
        }
    for name in ("items", "additionalProperties"):
        if is_object(node.get(name)):
            node[name] = _inlined(node[name], root, open_references, steps)
    # The server drops these too. The call is checked against the tool's own schema.
    return {name: value for name, value in node.items() if name not in _DROPPED}
