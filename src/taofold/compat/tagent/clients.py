"""Registries of the process: custom actions, and the caller's own clients as providers."""

import inspect
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from taofold.compat.tagent.model_names import translated
from taofold.core import content
from taofold.core.content import Conversation
from taofold.core.errors import ConfigError, ModelError
from taofold.core.json_values import is_object
from taofold.core.values import Message, ModelSettings, Profile, Reply
from taofold.runtime.model import Model, ModelSpec, OnText, Request
from taofold.runtime.providers import forget_provider, register_provider, resolve
from taofold.tools import toolset
from taofold.tools.threads import WORKERS, run_now
from taofold.tools.tool import Tool
from taofold.tools.toolset import custom_actions, forget_action


def register_custom_action(action_name: str, action_func: Callable[..., Any]) -> Tool:
    """`taofold.register_custom_action`."""
    return toolset.register_custom_action(action_name, action_func)


def format_conversation_as_chat(
    conversation_history: Iterable[Mapping[str, str] | Message],
) -> str:
    """`taofold.core.content.format_conversation_as_chat`."""
    return content.format_conversation_as_chat(conversation_history)


class _SystemActions(MutableMapping[str, Callable[..., Any]]):
    """The actions of every agent of the process. Setting a name again replaces it.

    `plan`, `execute`, `evaluate` and `summarize` work without an entry. An entry with one of these
    names replaces the built-in action.
    """

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return custom_actions()[name]

    def __setitem__(self, name: str, action: Callable[..., Any]) -> None:
        before = custom_actions().get(name)
        forget_action(name)
        try:
            register_custom_action(name, action)
        except Exception:
            if before is not None:  # an invalid action must not remove the previous one
                register_custom_action(name, before)
            raise

    def __delitem__(self, name: str) -> None:
        if name not in custom_actions():
            raise KeyError(name)
        forget_action(name)

    def __iter__(self) -> Iterator[str]:
        return iter(custom_actions())

    def __len__(self) -> int:
        return len(custom_actions())


SYSTEM_ACTIONS: Final[MutableMapping[str, Callable[..., Any]]] = _SystemActions()


_PROFILE: Final = Profile()


@dataclass(frozen=True, slots=True)
class Completion:
    """A client's answer: the text, and the model that wrote it."""

    content: str
    model: str = ""


class Client:
    """Any taofold model with TAgent's call."""

    def completion(
        self, model: ModelSpec, messages: Sequence[Mapping[str, str]], **options: Any
    ) -> Completion:
        """Calls `model` once. `options` are fields of `ModelSettings`, such as temperature.

        Raises:
            ConfigError: There is no such model.
            ModelError: The provider failed after retries.
        """
        named = resolve(translated(model))
        sent = [
            _message(message.get("role", "user"), message.get("content", ""))
            for message in messages
        ]
        settings = ModelSettings.of(options)
        reply = run_now(named.complete(Request(Conversation(sent), overrides=settings)))
        return Completion(reply.text, reply.model or named.name)


llm_client: Final = Client()


class CompletionModel:
    """The caller's own client, with `completion(model=, messages=)`, as a model.

    The reply may be text, an object with `content`, or one with `choices` as in OpenAI's format.
    """

    def __init__(self, name: str, model: str, client: Any) -> None:
        self.name, self.model, self.client = name, model, client
        self.profile = _PROFILE

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Calls the client once, in a worker thread."""
        messages = [{"role": m.role, "content": m.text} for m in request.conversation]
        # Only set options, because the caller's client may accept none.
        options: dict[str, Any] = {}
        settings = request.asked()
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.max_tokens:
            options["max_tokens"] = settings.max_tokens

        def ask() -> Any:
            return self.client.completion(model=self.model, messages=messages, **options)

        try:
            # In a worker, because TAgent's clients block.
            answer: Any = await WORKERS.run(ask)
        except Exception as error:
            # Any exception counts as a failed model, so the run may try another one.
            raise ModelError(f"{self.name}: {type(error).__name__}: {error}") from error
        text = _text(answer)
        if text is None:
            raise ModelError(f"{self.name} answered without text: {answer!r}", kind="reply")
        if on_text is not None:
            on_text(text)
        return Reply(text, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns None: the price is unknown."""
        return None


def integrate_custom_llm(provider_name: str, client_class: Callable[..., Any]) -> None:
    """Registers the caller's own client or model as `provider_name:model`.

    `client_class` is called with the model's name, or without arguments if it takes none. It must
    return a client with `completion(model=…, messages=…)`, as in TAgent, or a taofold model.

    Raises:
        ConfigError: The name is unsafe, or `client_class` cannot be called.
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
    # Into `data`, because setting the item would register it again.
    LLM_PROVIDERS.data[provider_name] = client_class


def _takes_nothing(client_class: Callable[..., Any]) -> bool:
    try:
        # C classes have no readable signature. They get the name.
        return not inspect.signature(client_class).parameters
    except (TypeError, ValueError):
        return False


class _Providers(UserDict[str, Callable[..., Any]]):
    """The caller's own providers. Setting a name registers it, deleting it removes it."""

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


def _text(answer: Any) -> str | None:
    """Returns the text of a client's answer in any known form, or None."""
    content: Any = answer if isinstance(answer, str) else _part(answer, "content")
    choices: Any = _part(answer, "choices")
    if content is None and choices:
        content = _part(_part(choices[0], "message"), "content")
    return content if isinstance(content, str) else None


def _part(thing: Any, name: str) -> Any:
    return thing.get(name) if is_object(thing) else getattr(thing, name, None)
