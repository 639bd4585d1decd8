"""Models under TAgent's names: clients with `completion(model, messages)`, and their registry."""

import inspect
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from taofold.agent.sync import run_now
from taofold.core.content import Conversation
from taofold.core.errors import ConfigError, ModelError
from taofold.core.json_values import is_object
from taofold.core.values import Message, ModelSettings, Profile, Reply
from taofold.runtime.model import Model, ModelSpec, OnText, Request
from taofold.runtime.providers import forget_provider, register_provider, resolve
from taofold.tools.threads import WORKERS

_PROFILE: Final = Profile()


@dataclass(frozen=True, slots=True)
class Completion:
    """What a client answers: the text, and the model that wrote it."""

    content: str
    model: str = ""


class Client:
    """Any of our models behind TAgent's call."""

    def completion(
        self, model: ModelSpec, messages: Sequence[Mapping[str, str]], **options: Any
    ) -> Completion:
        """Ask `model` once; `options` are fields of `ModelSettings`, such as temperature.

        Raises:
            ConfigError: there is no such model.
            ModelError: its provider failed after retries.
        """
        named = resolve(model)
        sent = [
            _message(message.get("role", "user"), message.get("content", ""))
            for message in messages
        ]
        settings = ModelSettings.of(options)
        reply = run_now(named.complete(Request(Conversation(sent), overrides=settings)))
        return Completion(reply.text, reply.model or named.name)


llm_client: Final = Client()


class CompletionModel:
    """A client of the caller's own, as a model: whatever has `completion(model=, messages=)`.

    The reply may be text, an object with `content`, or one with `choices` as OpenAI has them.
    """

    def __init__(self, name: str, model: str, client: Any) -> None:
        self.name, self.model, self.client = name, model, client
        self.profile = _PROFILE

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask the client once, in a worker thread."""
        messages = [{"role": m.role, "content": m.text} for m in request.conversation]
        # Only what was asked for: a client of the caller's may take no options at all.
        options: dict[str, Any] = {}
        settings = request.asked()
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.max_tokens:
            options["max_tokens"] = settings.max_tokens

        def ask() -> Any:
            return self.client.completion(model=self.model, messages=messages, **options)

        try:
            # In a worker: TAgent's clients block until the answer is there.
            answer: Any = await WORKERS.run(ask)
        except Exception as error:
            # Whatever it raises is a failed model to the run, which may try another one.
            raise ModelError(f"{self.name}: {type(error).__name__}: {error}") from error
        text = _text(answer)
        if text is None:
            raise ModelError(f"{self.name} answered without text: {answer!r}", kind="reply")
        if on_text is not None:
            on_text(text)
        return Reply(text, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Unknown."""
        return None


def integrate_custom_llm(provider_name: str, client_class: Callable[..., Any]) -> None:
    """Let `provider_name:model` mean a client or a model of the caller's own.

    `client_class` is called with the model's name, or with nothing if it takes nothing. What it
    makes has `completion(model=…, messages=…)`, as TAgent's clients have, or is a model of ours.

    Raises:
        ConfigError: the name is unsafe, or `client_class` cannot be called.
    """

    def factory(model: str, **options: Any) -> Model:
        named = () if _takes_nothing(client_class) else (model,)
        client = client_class(*named, **options)
        if callable(getattr(client, "complete", None)):
            return cast("Model", client)
        if callable(getattr(client, "completion", None)):
            return CompletionModel(f"{provider_name}:{model}", model, client)
        raise ConfigError(
            f"provider {provider_name!r} made {client!r}, which has neither complete nor completion"
        )

    if not callable(client_class):
        raise ConfigError(f"provider {provider_name!r} must be a class, not {client_class!r}")
    register_provider(provider_name, factory)
    # Into `data`: setting the item would register it once more.
    LLM_PROVIDERS.data[provider_name] = client_class


def _takes_nothing(client_class: Callable[..., Any]) -> bool:
    try:
        # Classes of C have no signature to look at: they get the name.
        return not inspect.signature(client_class).parameters
    except (TypeError, ValueError):
        return False


class _Providers(UserDict[str, Callable[..., Any]]):
    """The caller's own providers. Setting a name registers it, deleting it forgets it."""

    def __setitem__(self, name: str, client_class: Callable[..., Any]) -> None:
        integrate_custom_llm(name, client_class)

    def __delitem__(self, name: str) -> None:
        del self.data[name]
        forget_provider(name)


LLM_PROVIDERS: Final = _Providers()


def _message(role: str, content: str) -> Message:
    match role:
        case "system" | "user" | "assistant":
            return Message(role, content)
        case _:
            raise ConfigError(f"a message is of system, user or assistant, not of {role!r}")


def _text(said: Any) -> str | None:
    """The text of an answer in one of the forms that clients have, None if there is none."""
    content: Any = said if isinstance(said, str) else _part(said, "content")
    choices: Any = _part(said, "choices")
    if content is None and choices:
        content = _part(_part(choices[0], "message"), "content")
    return content if isinstance(content, str) else None


def _part(thing: Any, name: str) -> Any:
    return thing.get(name) if is_object(thing) else getattr(thing, name, None)
