"""The providers that speak chat completions, each a factory `(model, **options) -> Model`.

Addresses and key variables as the providers document them, and what each wants otherwise than
the rest: a few speak the Responses API beside it, or instead.
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
    connection,
    endpoint,
    key_for,
    refuse_unknown,
)
from taofold.models.transport import same_server
from taofold.models.wire_names import MISTRAL_ID, OPENAI_CHAT_ID, OPENAI_TOOLS

OWN_SERVER: Final = replace(UNKNOWN, schema=True)
"""A local server that enforces a schema by grammar; the window is whatever it was started with."""


class Preset(NamedTuple):
    """What is special about a provider."""

    name: str
    url: str
    key: str
    """Environment variable of the key."""
    local: bool = False
    """Runs on one's own machine: no key needed, no price, rules `OWN_SERVER` for unknown models."""
    dialect: Dialect = Dialect()
    responses: bool = False
    """Its own models are asked through the Responses API, except those that hear or speak."""

    def __call__(self, model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
        """Connect to `model`. Raises `ConfigError` for a missing key, address or bad option."""
        refuse_unknown(**options)
        if not model:
            raise ConfigError(f"write {self.name}:MODEL, the model is missing")
        url = self._url(options)
        key = self._key(url, options)
        rules = rules_for(self.name, model, elsewhere=not same_server(url, self.url))
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
        # Who speaks this format elsewhere knows the old name of the limit.
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
        # The environment's key goes only where the environment or the preset points: an
        # argument that names another host must not receive it.
        if api_key is None and (base is None or same_server(base, self.url)):
            api_key = os.environ.get(self.key) or None
        # Only the provider itself is known to want one. A server elsewhere may not.
        if not api_key and (self.local or not same_server(url, self.url)):
            return ""
        return key_for(self.name, self.key, api_key)


def _authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _off(**fields: Any) -> Dialect:
    """A server that can switch thinking off, and takes levels only of models that have them."""
    return Dialect(efforts=False, stops_thinking=fields)


openai: Final = Preset("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", responses=True)
openai_chat: Final = Preset(
    "openai-chat",
    "https://api.openai.com/v1",
    "OPENAI_API_KEY",
    dialect=Dialect(new_limit=True, ids=OPENAI_CHAT_ID, tools=OPENAI_TOOLS),
)
_OWN_GRAMMAR: Final = Dialect(form=None)
"""A server that turns any schema into a grammar (llama.cpp, vLLM, LM Studio)."""
# Such a server may pass requests on to OpenAI, so it gets what OpenAI takes.
compatible: Final = Preset("openai-compatible", "", "OPENAI_COMPATIBLE_API_KEY", local=False)
openrouter: Final = Preset(
    "openrouter",
    "https://openrouter.ai/api/v1",
    "OPENROUTER_API_KEY",
    # Else a request may be routed to a host that ignores what was asked for.
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
    """The environment's variables in which keys of providers are."""
    names = {preset.key for preset in globals().values() if isinstance(preset, Preset)}
    return names | {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"}
