"""Providers with chat completions, each a factory `(model, **options) -> Model`.

Addresses and key variables are those of the providers' documentation. A few also have the Responses
API, or only that.
"""

import os
from dataclasses import replace
from typing import Any, Final, NamedTuple

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.models.capabilities import UNKNOWN, Abilities, rules_for
from taofold.models.chat_completions import ChatModel, Dialect
from taofold.models.openai_responses import ElsewhereModel, ResponsesModel
from taofold.models.prices import FREE
from taofold.models.remote import (
    ModelOptions,
    RemoteModel,
    check_choice,
    connection,
    endpoint,
    key_for,
)
from taofold.models.transport import same_server
from taofold.models.wire_names import MISTRAL_ID, OPENAI_CHAT_ID, OPENAI_TOOLS
from taofold.runtime.providers import BUILT_IN

OWN_SERVER: Final = replace(UNKNOWN, schema=True)
"""A local server that enforces schemas by grammar. The window is set when it starts."""


class Preset(NamedTuple):
    """The settings of one provider."""

    name: str
    url: str
    key: str
    """Environment variable of the key."""
    local: bool = False
    """A server on the user's machine: no key, no price, rules `OWN_SERVER` for unknown models."""
    dialect: Dialect = Dialect()
    responses: bool = False
    """Its own models use the Responses API, except those with audio."""

    def __call__(self, model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
        """Connects to `model`.

        Raises:
            ConfigError: The key or address is missing, or an option is invalid.
        """
        check_choice(self.name, model, options)
        url = self._url(options)
        # LiteLLM's form of a name. OpenAI itself has no model with a slash, a gateway may.
        vendor, slash, rest = model.partition("/")
        if self.url == openai.url and same_server(url, self.url) and slash and vendor in BUILT_IN:
            raise ConfigError(
                f"OpenAI has no model {model!r}: the provider stands before a colon, "
                f"'{vendor}:{rest}'"
            )
        key = self._key(url, options)
        rules = rules_for(self.name, model, elsewhere=not same_server(url, self.url))
        if not same_server(url, self.url):
            rules = replace(rules, tool_search=False)
        if rules == UNKNOWN and self.local:
            rules = OWN_SERVER
        return self._model(model, url, key, rules, options)

    def _model(
        self, model: str, url: str, key: str, rules: Abilities, options: ModelOptions
    ) -> RemoteModel:
        if self.responses and "audio" not in model:
            at = endpoint(f"{url}/responses", _authorization(key), key, options)
            responses = connection(self.name, model, at, options, server=url, rules=rules)
            if same_server(url, self.url):
                return ResponsesModel(responses, rules)
            shared: ModelOptions = {**options, "limiter": at.limiter}
            return ElsewhereModel(responses, rules, self._chat(model, url, key, rules, shared))
        return self._chat(model, url, key, rules, options)

    def _chat(
        self, model: str, url: str, key: str, rules: Abilities, options: ModelOptions
    ) -> ChatModel:
        price = FREE if self.local else None
        at = endpoint(f"{url}/chat/completions", _authorization(key), key, options)
        connected = connection(self.name, model, at, options, server=url, price=price, rules=rules)
        # Other servers with this format know only the old name of the limit.
        new_limit = self.dialect.new_limit and url == self.url
        return ChatModel(connected, rules, replace(self.dialect, new_limit=new_limit))

    def _url(self, options: ModelOptions) -> str:
        variable = f"{self.name.upper().replace('-', '_')}_BASE_URL"
        url = options.get("base_url") or os.environ.get(variable) or self.url
        if not url:
            raise ConfigError(
                f"provider {self.name!r} needs an address: pass base_url= (such as "
                f"http://127.0.0.1:8000/v1) or set the environment variable {variable}"
            )
        return url.rstrip("/")

    def _key(self, url: str, options: ModelOptions) -> str:
        api_key = options.get("api_key")
        base = options.get("base_url")
        # The environment's key goes only to hosts from the environment or the preset, never to one
        # from an argument.
        if api_key is None and (base is None or same_server(base, self.url)):
            api_key = os.environ.get(self.key) or None
        # Only the provider itself is known to require a key.
        if not api_key and (self.local or not same_server(url, self.url)):
            return ""
        return key_for(self.name, self.key, api_key)


def _authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _off(**fields: Any) -> Dialect:
    """Returns the dialect of a server that can disable thinking.

    Levels are sent only for models that are known to have them.
    """
    return Dialect(efforts=False, stops_thinking=fields)


openai: Final = Preset("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", responses=True)
openai_chat: Final = Preset(
    "openai-chat",
    "https://api.openai.com/v1",
    "OPENAI_API_KEY",
    dialect=Dialect(new_limit=True, ids=OPENAI_CHAT_ID, tools=OPENAI_TOOLS),
)
_OWN_GRAMMAR: Final = Dialect(form=None)
"""A server that converts any schema to a grammar (llama.cpp, vLLM, LM Studio)."""
# Such a server may forward requests to OpenAI, so it gets what OpenAI accepts.
compatible: Final = Preset("openai-compatible", "", "OPENAI_COMPATIBLE_API_KEY", local=False)
openrouter: Final = Preset(
    "openrouter",
    "https://openrouter.ai/api/v1",
    "OPENROUTER_API_KEY",
    # Otherwise a request may be routed to a host that ignores some parameters.
    dialect=Dialect(marks_cache=True, bills=True, extra={"provider": {"require_parameters": True}}),
)
groq: Final = Preset(
    "groq",
    "https://api.groq.com/openai/v1",
    "GROQ_API_KEY",
    # Groq, API reference, `tools`: "A max of 128 functions are supported".
    dialect=Dialect(tools=OPENAI_TOOLS),
)
deepseek: Final = Preset(
    "deepseek",
    "https://api.deepseek.com/v1",
    "DEEPSEEK_API_KEY",
    dialect=_off(thinking={"type": "disabled"}),
)
moonshot: Final = Preset(
    "moonshot",
    "https://api.moonshot.ai/v1",
    "MOONSHOT_API_KEY",
    dialect=_off(thinking={"type": "disabled"}),
)
zai: Final = Preset(
    "zai",
    "https://api.z.ai/api/paas/v4",
    "ZAI_API_KEY",
    dialect=_off(thinking={"type": "disabled"}),
)
together: Final = Preset("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY")
fireworks: Final = Preset("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY")
cerebras: Final = Preset("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY")
mistral: Final = Preset(
    "mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", dialect=Dialect(ids=MISTRAL_ID)
)
xai: Final = Preset("xai", "https://api.x.ai/v1", "XAI_API_KEY")
gemini_compatible: Final = Preset(
    "gemini-compatible",
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "GEMINI_API_KEY",
    dialect=Dialect(signs_calls=True),
)
llamacpp: Final = Preset(
    "llamacpp", "http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY", True, _OWN_GRAMMAR
)
lmstudio: Final = Preset(
    "lmstudio", "http://127.0.0.1:1234/v1", "LMSTUDIO_API_KEY", True, _OWN_GRAMMAR
)
vllm: Final = Preset("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY", True, _OWN_GRAMMAR)


def key_names() -> set[str]:
    """Returns the environment variables that hold providers' keys."""
    names = {preset.key for preset in globals().values() if isinstance(preset, Preset)}
    return names | {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"}
