"""Base of all models over HTTP: their options, and a call with body, reader and endpoint.

A provider's module subclasses `RemoteModel`, which writes its format (`_head` and `_messages`) and
reads it (`_reader`). A body is the head, which stays the same between calls of a run, followed by
the messages. Each message is encoded once, so one request is a prefix of the next.

`ModelOptions` are the options for connecting to a model. They are checked here, the key is looked
up, and the effort is lowered to one that the model has. `connection` collects the facts about a
model, its window, prices and abilities, and their origin (`Sources`).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict
from urllib.parse import urlsplit

import msgspec

from taofold.core.content import Conversation, Issuer, TextPart, Wire, parts_of
from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import EFFORTS, JSON, Effort, ModelSettings, Profile, PromptCache, Reply
from taofold.models.capabilities import Abilities, rules_for
from taofold.models.encoding import Memo, estimate, pieces, sampling
from taofold.models.endpoint import Endpoint, ReplyReader, RetryPolicy, Sign
from taofold.models.limiter import Limiter
from taofold.models.prices import CatalogueEntry, Price, Prices, find, own_price
from taofold.models.probed import probed_profile
from taofold.models.replies import MOST_CHARS_PER_TOKEN, ReplyContext
from taofold.models.tool_search import REFUSED, found_names, searched_tools
from taofold.models.transport import Bounds, Transport
from taofold.models.wire_names import ANY_TOOLS, ToolRules, WireTools, wire_tools
from taofold.models.wire_schema import AnswerForm, FormRules, UnwrappedText, adapt_form
from taofold.runtime.model import OnText, Request, Speaker

_BAD_REQUEST: Final = 400
_SETTINGS = msgspec.json.Encoder().encode
Parts: TypeAlias = list[bytes]
"""A body in pieces, in order."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The origin of each fact about a model, for display."""

    window: str = ""
    price: str = ""
    abilities: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    """A model at its provider.

    Args:
        name: `provider:model`.
        model: Its name at the provider.
        price: None if unknown.
        settings: Its own settings, which override an agent's.
        server: Base URL of its provider's interface. Measured profiles belong to it.
        host: The host that its opaque parts are bound to. "" = the endpoint's host.
        sources: Origin of its profile and price.
    """

    name: str
    model: str
    endpoint: Endpoint
    profile: Profile
    server: str
    price: Price | None = None
    settings: ModelSettings = ModelSettings()
    host: str = ""
    sources: Sources = Sources()

    def issuer(self, wire: Wire) -> Issuer:
        """Returns the issuer of its replies."""
        return Issuer(wire, self.host or urlsplit(self.endpoint.url).netloc, self.model)


class ModelTurn(NamedTuple):
    """One call after removing settings that the model does not accept."""

    request: Request
    settings: ModelSettings
    wire: WireTools
    form: AnswerForm | None
    streaming: bool
    loaded: tuple[str, ...] = ()
    """Deferred tools that are sent as ordinary ones: the conversation does not name them."""


class RemoteModel:
    """A model behind an HTTP endpoint."""

    wire: Wire
    tool_rules: ToolRules = ANY_TOOLS
    form_rules: FormRules | None = None
    """None: an answer's schema is sent unchanged."""
    searches_tools = False
    """True if the format has a search of deferred tools, for models whose profile has it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name, self.profile = connection.name, connection.profile
        if self.profile.tool_search and not self.searches_tools:
            self.profile = msgspec.structs.replace(self.profile, tool_search=False)
        self.issuer = connection.issuer(self.wire)
        self._form = f"{self.wire} {self.issuer.host} {connection.model}"
        self._memo = Memo()
        self._warned: set[str] = set()
        self._refuses_search = False
        """True if the server has refused its search of tools."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def settings(self) -> ModelSettings:
        """Its own settings, which override those of a request."""
        return self.connection.settings

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns the US dollars for a call of this size without cache hits, or None."""
        return self.price_at(input_tokens, output_tokens, self.connection.settings.service_tier)

    def price_at(self, input_tokens: int, output_tokens: int, tier: str) -> float | None:
        """Returns the price of a call in a service tier, or None."""
        settings = msgspec.structs.replace(self.connection.settings, service_tier=tier)
        return self.price_of_call(input_tokens, output_tokens, settings)

    def price_of_call(
        self, input_tokens: int, output_tokens: int, settings: ModelSettings
    ) -> float | None:
        """Returns the price of a call with these settings: service tier and cache lifetime."""
        price = self.connection.price
        if price is None:
            return None
        return price.on(datetime.now(UTC), any_hour=True).upper(
            input_tokens,
            output_tokens,
            settings.service_tier,
            long_cache=settings.prompt_cache == "1h",
        )

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Makes one call. See `Model`."""
        if on_text is None:
            return await self._ask(request, None)
        form = self._turn(request, streaming=True).form
        if form is None or not form.wrapped:
            return await self._ask(request, Speaker(on_text))
        unwrapped = UnwrappedText(on_text)
        try:
            return await self._ask(request, Speaker(unwrapped))
        finally:
            unwrapped.end()

    async def _ask(self, request: Request, speaker: Speaker | None) -> Reply:
        """Makes one call with the features that this server supports."""
        connection, conversation = self.connection, request.conversation
        turn = self._turn(request, streaming=speaker is not None and self.profile.streaming)
        # By `id`, because what is derived from tools and schema is large and cached.
        key = (
            id(turn.wire),
            id(turn.form),
            _SETTINGS(turn.settings),
            request.allowed,
            request.stop,
            turn.streaming,
            turn.loaded,
            self._version(),
        )
        head, notes = self._memo.get(key, (turn.wire, turn.form), lambda: self._first(turn))
        body = [head, *self._messages(turn)]
        endpoint = connection.endpoint
        frame = ReplyContext(
            self.name,
            self.issuer,
            endpoint.url,
            endpoint.secret,
            connection.price.on(datetime.now(UTC)) if connection.price else None,
            turn.wire.original_names(),
            len(conversation),
            speaker,
            turn.wire.properties,
            sent=estimate(request, 0),
            least=conversation.text_chars // MOST_CHARS_PER_TOKEN,
            has_own_price=connection.sources.price == OWN_PRICE,
        )
        reply = await endpoint.ask(
            body,
            estimate(request, turn.settings.max_tokens),
            lambda: self._reader(frame),
            speaker,
            streaming=turn.streaming,
            url=self._url(turn),
        )
        return self._with_notes(_unwrapped(reply, turn.form), notes)

    def _turn(self, request: Request, *, streaming: bool) -> ModelTurn:
        """Returns the part of the request that this model supports."""
        tools = request.tools if self.profile.native_tools else ()
        schema = request.schema if self.profile.json_schema else None
        settings = request.asked(self.connection.settings)
        # By `id`, because both are the same objects in all calls of a run.
        searched = self._searched(request)
        wire: WireTools = searched or self._memo.get(
            ("tools", id(tools)), tools, lambda: wire_tools(tools, self.tool_rules)
        )
        form: AnswerForm | None = self._memo.get(
            ("form", id(schema)), schema, lambda: self._form_of(schema)
        )
        loaded = self._loaded(request, searched) if searched else ()
        return ModelTurn(request, settings, wire, form, streaming, loaded)

    def _searched(self, request: Request) -> WireTools | None:
        """Returns the tools for the provider's search; None if it has none."""
        profile = self.profile
        if not (self.searches_tools and profile.tool_search and profile.native_tools):
            return None
        if not request.deferred or self._refuses_search:
            return None
        away = {tool.name for tool in request.deferred}
        first = tuple([tool for tool in request.tools if tool.name not in away])
        key = ("search", id(request.deferred), request.search, *map(id, first))
        wire: WireTools = self._memo.get(
            key, (request.deferred, first), lambda: self._searchable(request)
        )
        return wire

    def _is_without_search(self, request: Request, error: ModelError) -> bool:
        """Returns whether the server refused its search of tools, and remembers that."""
        if error.kind != "request" or error.status != _BAD_REQUEST:
            return False
        if self._searched(request) is None:
            return False
        reason = str(error).lower()
        self._refuses_search = any([word in reason for word in REFUSED])
        return self._refuses_search

    def _searchable(self, request: Request) -> WireTools:
        """Returns the tools of a request in the form of the provider's search."""
        return searched_tools(request, self.tool_rules)

    def _loaded(self, request: Request, wire: WireTools) -> tuple[str, ...]:
        """Returns the deferred tools to send as ordinary ones: see `ModelTurn`."""
        named, called = self._named(request.conversation, wire)
        found = [name for name in found_names(request, wire) if name not in named]
        return tuple(dict.fromkeys([*found, *sorted(called)]))

    def _named(self, conversation: Conversation, wire: WireTools) -> tuple[set[str], set[str]]:
        """Returns the tools that the conversation loads, and others that its calls require."""
        raise NotImplementedError

    def _form_of(self, schema: dict[str, JSON] | None) -> AnswerForm | None:
        if schema is None:
            return None
        return adapt_form(schema, self.form_rules) if self.form_rules else AnswerForm(schema)

    def _first(self, turn: ModelTurn) -> tuple[bytes, tuple[str, ...]]:
        notes = [*turn.wire.notes]
        head = self._head(turn, notes)
        return head, tuple(notes)

    def _not_enforced(self, turn: ModelTurn) -> str:
        """Returns a note for a schema that the provider cannot enforce, or ""."""
        if turn.form is None or not turn.form.reason:
            return ""
        return (
            f"{self.name} does not enforce the schema of the answer: {turn.form.reason}; "
            "the reply is checked after it came"
        )

    def _with_notes(self, reply: Reply, notes: Sequence[str]) -> Reply:
        """Returns the reply with notes about unsupported settings, each once per model."""
        if not notes:
            return reply
        fresh = [note for note in notes if note not in self._warned]
        if not fresh:
            return reply
        self._warned.update(fresh)
        return Reply(
            usage=reply.usage,
            model=reply.model,
            finish=reply.finish,
            parts=reply.content,
            issuer=reply.issuer,
            notes=(*fresh, *reply.notes),
            found=reply.found,
        )

    def _version(self) -> Any:
        """Returns the facts learnt about this server that the head depends on."""
        return None

    def _url(self, turn: ModelTurn) -> str:
        """Returns the URL of the request, if it is not the endpoint's own."""
        return ""

    def _written(self, turn: ModelTurn, separator: bytes = b",") -> list[bytes]:
        """Returns the messages, each encoded once, with `separator` between them."""
        blobs, native = turn.request.blobs, self.profile.native_tools
        if native:
            return turn.request.conversation.fragments(
                f"{self._form}{turn.wire.form}",
                lambda conversation, index: pieces(
                    self._native(conversation, index, turn.wire), blobs
                ),
                separator,
            )
        return turn.request.conversation.fragments(
            f"{self._form} text",
            lambda conversation, index: pieces(self._plain(conversation, index), blobs),
            separator,
        )

    def _sampling(
        self, rules: Abilities, settings: ModelSettings, notes: list[str], *, thinks: bool
    ) -> dict[str, Any]:
        """Returns temperature and top_p, if the model accepts them with or without thinking."""
        fields = sampling(settings)
        if rules.sampling == "yes" or (rules.sampling == "not_thinking" and not thinks):
            if rules.one_sampling and len(fields) > 1:
                notes.append(f"top_p is not sent: {self.name} takes it or temperature, not both")
                del fields["top_p"]
            return fields
        while_ = " while it thinks" if rules.sampling == "not_thinking" else ""
        notes += [f"{name} is not sent: {self.name} does not take it{while_}" for name in fields]
        return {}

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        """Returns the body up to the messages: the same bytes for every call of a run.

        `notes` receives a note for each unsupported setting.
        """
        raise NotImplementedError

    def _messages(self, turn: ModelTurn) -> Sequence[bytes]:
        """Returns the rest of the body."""
        raise NotImplementedError

    def _native(self, conversation: Conversation, index: int, wire: WireTools) -> bytes:
        """Returns message `index`, after missing results of the batch before it."""
        raise NotImplementedError

    def _plain(self, conversation: Conversation, index: int) -> bytes:
        """Returns message `index` for a model without native tools: calls and results are text."""
        raise NotImplementedError

    def _reader(self, frame: ReplyContext) -> ReplyReader:
        """Returns a reader for one attempt."""
        raise NotImplementedError


def _unwrapped(reply: Reply, form: AnswerForm | None) -> Reply:
    """Returns the reply with the answer taken out of its wrapper object."""
    if form is None or not form.wrapped:
        return reply
    parts = tuple(
        msgspec.structs.replace(part, text=form.unwrap(part.text))
        if isinstance(part, TextPart)
        else part
        for part in parts_of(reply.content)
    )
    return replace(reply, parts=parts)


def effort_at_most(
    wanted: Effort | None, levels: Sequence[Effort], notes: list[str], model: str
) -> Effort | None:
    """Returns the level `wanted`, or the nearest below it, or the lowest of `levels`.

    None if no level is wanted or the model has none.
    """
    if wanted is None:
        return None
    if not levels:
        if wanted != "none":
            notes.append(f"effort {wanted!r} is not sent: {model} does not take one")
        return None
    if wanted in levels:
        return wanted
    # Rounded down, because thinking costs tokens.
    below: list[Effort] = [
        level
        for level in levels
        if level != "none" and EFFORTS.index(level) < EFFORTS.index(wanted)
    ]
    # A wish for little thinking does not become none.
    some: list[Effort] = [level for level in levels if level != "none"]
    taken: Effort = below[-1] if below else (some or levels)[0]
    notes.append(f"effort {wanted!r} is not among those of {model}: {taken!r} is taken")
    return taken


def cache_mark(settings: ModelSettings) -> dict[str, str]:
    """Returns the mark that ends a Claude's cached prefix, with its lifetime."""
    mark = {"type": "ephemeral"}
    return mark | {"ttl": "1h"} if settings.prompt_cache == "1h" else mark


OWN_PRICE: Final = "prices="
"""The source of a price that the user configured."""
_YOURS: Final = "profile="
_PROBED: Final = "measured by `taofold doctor`"


class ModelOptions(TypedDict, total=False):
    """Keyword options of every adapter. Seconds, tokens, dollars per million tokens."""

    base_url: str | None
    api_key: str | None
    profile: Profile | None
    prices: Prices | None
    timeout: float
    max_bytes: int
    requests_per_minute: float | None
    tokens_per_minute: float | None
    retry: RetryPolicy
    transport: Transport | None
    limiter: Limiter | None
    headers: Mapping[str, str]
    effort: Effort | None
    temperature: float | None
    top_p: float | None
    max_tokens: int
    prompt_cache: PromptCache
    service_tier: str
    extra: Mapping[str, Any]


def key_for(provider: str, variable: str, given: str | None) -> str:
    """Returns the given key, else the environment's.

    Raises:
        ConfigError: There is none. The message names `variable`.
    """
    key = (given if given is not None else os.environ.get(variable, "")).strip()
    if not key:
        raise ConfigError(
            f"provider {provider!r} needs a key: set the environment variable {variable}, "
            f"or in Python Agent({{'model': '{provider}:…', 'api_key': …}})"
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"the key for provider {provider!r} holds characters that no key has: copy it again"
        )
    return key


def endpoint(
    url: str,
    headers: Mapping[str, str],
    secret: str,
    options: ModelOptions,
    sign: Sign | None = None,
) -> Endpoint:
    """Returns the endpoint at `url` with the bounds, rates and retries of `options`."""
    timeout = options.get("timeout", 120.0)
    if timeout <= 0:
        raise ConfigError(f"timeout must be positive seconds, not {timeout!r}")
    address = Endpoint(
        url,
        {**headers, **options.get("headers", {})},
        secret=secret,
        transport=options.get("transport"),
        # Ten seconds for the connection. No model writes more than 16 MB.
        bounds=Bounds(min(10.0, timeout), timeout, options.get("max_bytes", 16 << 20)),
        retry=options.get("retry", RetryPolicy()),
        limiter=options.get("limiter"),
        sign=sign,
    )
    # The limiter may be shared, so the strictest rates apply to all.
    address.limiter.configure(options.get("requests_per_minute"), options.get("tokens_per_minute"))
    return address


def settings_of(options: ModelOptions) -> ModelSettings:
    """Returns the model's own settings.

    Raises:
        ConfigError: A setting has a wrong type or range.
    """
    names = ModelSettings.__struct_fields__
    return ModelSettings.of({name: value for name, value in options.items() if name in names})


def connection(
    provider: str,
    model: str,
    at: Endpoint,
    options: ModelOptions,
    *,
    server: str,
    price: Price | None = None,
    rules: Abilities | None = None,
    assumed: Profile | None = None,
    host: str = "",
) -> Connection:
    """Returns the model at its endpoint, with all known facts.

    Facts come from the user, then from a measurement by `taofold doctor` at this `server`, then
    from the price list, then from the rules. `price` is for models in no list. `assumed` replaces
    the rules' profile for a model without a given or measured one.
    """
    abilities = rules or rules_for(provider, model)
    entry = find(provider, model)
    given = options.get("profile")
    probed = None if given else probed_profile(f"{provider}:{model}", server)
    known = _YOURS if given else _PROBED if probed else ""
    profile = given or probed or assumed or abilities.profile(entry.window if entry else 0)
    listed = entry.price if entry else None
    own = own_price(model, options.get("prices"))
    return Connection(
        f"{provider}:{model}",
        model,
        at,
        profile,
        server,
        own or listed or price,
        settings_of(options),
        host,
        Sources(
            window=known or _window(entry, abilities),
            price=_price(own, entry, price),
            abilities=known or abilities.source,
        ),
    )


def _window(entry: CatalogueEntry | None, rules: Abilities) -> str:
    return entry.source if entry is not None and entry.window else rules.source


def _price(own: Price | None, entry: CatalogueEntry | None, given: Price | None) -> str:
    if own is not None:
        return OWN_PRICE
    if entry is not None and entry.price is not None:
        return entry.source
    return "it is the provider's" if given is not None else ""


def check_choice(provider: str, model: str, options: ModelOptions, what: str = "model") -> None:
    """Raises `ConfigError` for options that no adapter has, or if the model's name is missing."""
    unknown = sorted(set(options) - set(ModelOptions.__annotations__))
    if unknown:
        raise ConfigError(
            f"unknown model options {unknown!r}; known are {sorted(ModelOptions.__annotations__)!r}"
        )
    if not model:
        raise ConfigError(f"write {provider}:{what.upper()}, the {what} is missing")
