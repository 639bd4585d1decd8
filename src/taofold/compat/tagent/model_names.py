"""Models as TAgent's programs name them: LiteLLM's spelling, and one model for each role.

LiteLLM writes `openrouter/google/gemini-2.5-flash`, taofold `openrouter:google/gemini-2.5-flash`.
Knows nothing about agents.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field

from taofold.core.errors import ConfigError
from taofold.runtime.model import ModelSpec
from taofold.runtime.providers import is_provider, providers

PREFIXES: Final = {
    "azure_ai": "",
    "fireworks_ai": "fireworks",
    "hosted_vllm": "vllm",
    "lm_studio": "lmstudio",
    "ollama_chat": "ollama",
    "openai_like": "openai-compatible",
    "together_ai": "together",
    "vertex_ai": "vertex",
}
"""LiteLLM's prefixes with another name here; "" if taofold has no such provider."""
_BARE: Final = {"claude": "anthropic", "gemini": "vertex"}
"""LiteLLM's providers of names without a prefix, by their beginning. Others are OpenAI's."""


class AgentModelConfig(BaseModel):
    """The models of a program by role; without one, a role uses `tagent_model`.

    Example:
        ```python
        from taofold.compat.tagent import AgentModelConfig

        models = AgentModelConfig(tagent_model="gpt-5-mini", tagent_evaluator_model="gpt-5")
        ```

    Attributes:
        tagent_model: Model of all roles without one of their own.
        tagent_planner_model: Writes plans.
        tagent_executor_model: Chooses the next action.
        tagent_summarizer_model: The finalizer writes summaries here, so it must be the same model.
        tagent_evaluator_model: Judges whether the goal is reached.
        tagent_finalizer_model: Writes the output and the summaries.
        api_key: Key of all these models.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    tagent_model: str
    tagent_planner_model: str | None = None
    tagent_executor_model: str | None = None
    tagent_summarizer_model: str | None = None
    tagent_evaluator_model: str | None = None
    tagent_finalizer_model: str | None = None
    api_key: str | None = Field(default=None, repr=False)

    def roles(self) -> dict[str, str]:
        """Returns the models that differ from `tagent_model`, by taofold's roles.

        Raises:
            ConfigError: The summarizer differs from the finalizer.
        """
        finalizer = self.tagent_finalizer_model or self.tagent_model
        if self.tagent_summarizer_model not in (None, finalizer):
            raise ConfigError(
                f"tagent_summarizer_model={self.tagent_summarizer_model!r} is not there: the "
                "finalizer writes summaries; set tagent_finalizer_model to the same model"
            )
        named = {
            "planner": self.tagent_planner_model,
            "executor": self.tagent_executor_model,
            "evaluator": self.tagent_evaluator_model,
            "finalizer": self.tagent_finalizer_model,
        }
        return {role: model for role, model in named.items() if model}


def translated(spec: ModelSpec) -> ModelSpec:
    """Returns `spec` with each name in taofold's spelling.

    Raises:
        ConfigError: A name has a prefix that is no provider.
    """
    if isinstance(spec, str):
        return _named(spec)
    if isinstance(spec, Mapping):
        own = dict(spec)
        return {**own, "model": translated(own["model"])} if own.get("model") else own
    if isinstance(spec, Sequence):
        return [cast("Any", translated(each)) for each in spec]
    return spec


def _named(name: str) -> str:
    before, colon, _ = name.partition(":")
    if colon and "/" not in before:
        return name  # taofold's spelling; LiteLLM has a colon only behind a slash
    prefix, slash, model = name.partition("/")
    if not slash:
        starts = [vendor for start, vendor in _BARE.items() if name.startswith(start)]
        return f"{starts[0]}:{name}" if starts else name
    provider = PREFIXES.get(prefix, prefix)
    if not provider or not is_provider(provider):
        raise ConfigError(
            f"taofold has no provider {prefix!r} for the model {name!r}: known are "
            f"{', '.join(providers())}; integrate_custom_llm({prefix!r}, …) adds one, and "
            "openai-compatible: reaches other servers with base_url="
        )
    return f"{provider}:{model}"
