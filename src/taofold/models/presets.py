"""The providers that speak chat completions, each a factory `(model, **options) -> Model`.

Addresses and key variables as the providers document them. It knows nothing about the format.
"""

import os
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.core.values import JSON, Profile
from taofold.models.openai import ChatModel
from taofold.models.options import Options, endpoint, key_for, known_price, refuse_unknown
from taofold.models.prices import FREE
from taofold.models.profiles import UNKNOWN, profile_of

LOCAL: Final = Profile(json_schema=True)
"""A local server that enforces a schema by grammar; the window is whatever it was started with."""


class Preset(NamedTuple):
    """What is special about a provider."""

    name: str
    url: str
    key: str
    """Environment variable of the key."""
    local: bool = False
    """Runs on one's own machine: no key needed, no price, profile `LOCAL` for unknown models."""
    new_limit: bool = False
    extra: tuple[tuple[str, JSON], ...] = ()

    def __call__(self, model: str, **options: Unpack[Options]) -> ChatModel:
        """Connect to `model`. Raises `ConfigError` for a missing key, address or bad option."""
        refuse_unknown(**options)
        if not model:
            raise ConfigError(f"write {self.name}:MODEL, the model is missing")
        url = self._url(options)
        key = self._key(options)
        profile = options.get("profile") or profile_of(model)
        if profile == UNKNOWN and self.local:
            profile = LOCAL
        return ChatModel(
            f"{self.name}:{model}",
            model,
            endpoint(f"{url}/chat/completions", _authorization(key), key, options),
            profile,
            price=known_price(model, options, FREE if self.local else None),
            new_limit=self.new_limit and url == self.url,
            extra=dict(self.extra),
        )

    def _url(self, options: Options) -> str:
        variable = f"{self.name.upper().replace('-', '_')}_BASE_URL"
        url = options.get("base_url") or os.environ.get(variable) or self.url
        if not url:
            raise ConfigError(
                f"provider {self.name!r} needs an address: pass base_url= (such as "
                f"http://127.0.0.1:8000/v1) or set the environment variable {variable}"
            )
        return url.rstrip("/")

    def _key(self, options: Options) -> str:
        given = options.get("api_key")
        base = options.get("base_url")
        # The environment's key goes only where the environment or the preset points: an
        # agent file that names another host must not receive it.
        elsewhere = base is not None and urlsplit(base).netloc != urlsplit(self.url).netloc
        if given is None and not elsewhere:
            given = os.environ.get(self.key) or None
        if not given and (self.local or elsewhere or not self.url):
            return ""
        return key_for(self.name, self.key, given)


def _authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


openai: Final = Preset("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", new_limit=True)
compatible: Final = Preset("openai-compatible", "", "OPENAI_COMPATIBLE_API_KEY", local=False)
openrouter: Final = Preset(
    "openrouter",
    "https://openrouter.ai/api/v1",
    "OPENROUTER_API_KEY",
    # Else a request may be routed to a host that ignores what was asked for.
    extra=(("provider", {"require_parameters": True}),),
)
groq: Final = Preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
deepseek: Final = Preset("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY")
together: Final = Preset("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY")
fireworks: Final = Preset("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY")
mistral: Final = Preset("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
xai: Final = Preset("xai", "https://api.x.ai/v1", "XAI_API_KEY")
gemini: Final = Preset(
    "gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"
)
llamacpp: Final = Preset("llamacpp", "http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY", local=True)
lmstudio: Final = Preset("lmstudio", "http://127.0.0.1:1234/v1", "LMSTUDIO_API_KEY", local=True)
vllm: Final = Preset("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY", local=True)
