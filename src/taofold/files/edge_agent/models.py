"""Translates how a node names its model: `provider`, `model` and the keys beside them."""

from typing import Any, Final

from taofold.files.edge_agent.made import Findings, Made
from taofold.files.expressions.template import is_template
from taofold.runtime.providers import is_provider

_ADDRESS: Final = (
    "where keys are sent is set by the environment (OPENAI_BASE_URL, …), never by a file"
)
_LOCAL: Final = (
    "write `model: llamacpp:NAME` or `ollama:NAME` for a model of this machine, or pass --model"
)
_SERVER: Final = frozenset({"api_base", "api_key", "base_url", "api_version", "azure_endpoint"})
ENGINE: Final = frozenset({"n_gpu_layers", "n_ctx", "n_threads", "model_path", "chat_format"})
"""Keys of a model that runs in The Edge Agent's process."""
TRACING: Final = frozenset({"opik_trace", "opik_project_name"})
"""Keys of Opik's traces of model calls."""


def named(model: str, provider: str) -> str:
    """Returns `provider:model` for a model as The Edge Agent names it."""
    if provider:
        return f"{provider}:{model}"
    head, colon, _ = model.partition(":")
    # `gemma3:4b` is a model and its tag at Ollama.
    if colon and not is_template(model) and not is_provider(head):
        return f"ollama:{model}"
    return model


def model_keys(keys: Made, node: Made, findings: Findings) -> None:
    """Rewrites the keys under `with` that choose a model, and those that only its client has."""
    provider = _taken(keys, "provider")
    shell = _taken(keys, "shell_provider")
    backend = _taken(keys, "backend")
    deployment = _taken(keys, "deployment")
    if deployment and "model" not in keys:
        keys.put("model", deployment, keys.place("deployment"))
    if provider == "shell" or shell:
        where = keys.place("provider") if provider else keys.place("shell_provider")
        program = shell if isinstance(shell, str) and shell and not is_template(shell) else ""
        findings.note(
            where,
            f"the model of the run answers, not the program {program!r}"
            if program
            else "the model of the run answers, not a program of this machine",
            "`taofold run claude GOAL` runs a coding agent",
        )
        keys.pop("model", None)
        provider = ""
    elif provider in ("local", "auto") or backend:
        if backend == "local" or provider == "local":
            findings.note(keys.place("backend"), "the model of the run answers", _LOCAL)
        provider = ""
    if isinstance(provider, str) and provider:
        if provider == "litellm" and isinstance(keys.get("model"), str):
            keys["model"] = str(keys["model"]).replace("/", ":", 1)
        elif is_template(provider) or not is_provider(provider):
            findings.note(
                keys.place("provider"),
                f"the provider {provider!r} is not known; the model of the run answers",
                "write `model: PROVIDER:NAME`",
            )
            keys.pop("model", None)
        elif isinstance(keys.get("model"), str):
            keys["model"] = named(str(keys["model"]), provider)
        else:
            findings.note(keys.place("provider"), "no model is named; the model of the run answers")
    elif isinstance(keys.get("model"), str):
        keys["model"] = named(str(keys["model"]), "")
    for key in [*keys]:
        if key in _SERVER:
            findings.refuse(keys.place(key), f"{key!r} does not belong in a file", _ADDRESS)
            del keys[key]
        elif key in ENGINE or key in TRACING:
            findings.note(keys.place(key), f"{key!r} has no effect here")
            del keys[key]
    _calling(keys, node)


def _calling(keys: Made, node: Made) -> None:
    """Moves the rules of the call from its keys to the node."""
    timeout = keys.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0:
        node.put("timeout", float(timeout), keys.places["timeout"])
        del keys["timeout"]
    retries = keys.get("max_retries")
    if isinstance(retries, int) and not isinstance(retries, bool):
        if retries > 0:
            node["on_error"] = Made(keys.places["max_retries"], {"retry": {"max": retries}})
        del keys["max_retries"]


def _taken(keys: Made, key: str) -> Any:
    return keys.pop(key, "") or ""
