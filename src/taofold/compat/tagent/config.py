"""TAgent's `TAgentConfig`: the arguments of `run_agent` in one value."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Final

from taofold.compat.tagent.model_names import AgentModelConfig
from taofold.core.errors import ConfigError
from taofold.runtime.model import ModelSpec

_TRUE: Final = ("true", "1", "yes", "on")
_FALSE: Final = ("false", "0", "no", "off")


@dataclass(frozen=True)
class TAgentConfig:
    """The arguments of `run_agent` in one value. Arguments of the call have precedence.

    Example:
        ```python
        from taofold.compat.tagent import TAgentConfig, run_agent

        config = TAgentConfig(model="openrouter/google/gemini-2.5-flash", max_iterations=5)
        result = run_agent("Name three colours.", config=config)
        ```

    Args:
        max_iterations: Maximum steps.
        verbose: Prints the steps to stderr.
        crash_if_over_iterations: Raises `OverIterations` if the steps do not suffice.
        model: Model, or the models of the roles.
        api_key: Key of the models that are given by name.
        temperature: Temperature of the model. None, the default, leaves it to the provider.
        ui_style: Only "modern" is accepted: taofold has one form of progress, `verbose`.
        tools: Functions, or a mapping of names to functions.
        output_format: Type of `result.output`. None means text.
        custom_settings: Values of the program itself. taofold does not read them.

    Raises:
        ConfigError: `ui_style` is another style.
    """

    max_iterations: int = 20
    verbose: bool = False
    crash_if_over_iterations: bool = False
    model: ModelSpec | AgentModelConfig | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    ui_style: str = "modern"
    tools: Mapping[str, Callable[..., Any]] | Sequence[Any] | None = None
    output_format: type[Any] | None = None
    custom_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.ui_style != "modern":
            raise ConfigError(
                f"ui_style={self.ui_style!r} is not there: leave it out; verbose=True prints one "
                "line for each step to stderr"
            )

    @classmethod
    def from_env(cls) -> "TAgentConfig":
        """Returns a config from `TAGENT_MAX_ITERATIONS`, `TAGENT_VERBOSE`,
        `TAGENT_CRASH_IF_OVER_ITERATIONS`, `TAGENT_MODEL`, `TAGENT_API_KEY` and `TAGENT_UI_STYLE`.

        Raises:
            ConfigError: A variable has no usable value.
        """
        readers: dict[str, Callable[[str, str], Any]] = {
            "max_iterations": _number,
            "verbose": _flag,
            "crash_if_over_iterations": _flag,
            "model": _same,
            "api_key": _same,
            "ui_style": _same,
        }
        values: dict[str, Any] = {}
        for name, read in readers.items():
            variable = f"TAGENT_{name.upper()}"
            if text := os.environ.get(variable):
                values[name] = read(variable, text)
        return cls(**values)

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any]) -> "TAgentConfig":
        """Returns a config from a mapping of its fields.

        Raises:
            ConfigError: A key is no field. The program's own values belong into `custom_settings`.
        """
        known = [each.name for each in fields(cls)]
        for name in config_dict:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "custom_settings takes own values"
                raise ConfigError(f"TAgentConfig has no field {name!r}: {hint}")
        return cls(**dict(config_dict))

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, with the key."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def merge(self, other: "TAgentConfig") -> "TAgentConfig":
        """Returns this config with the values of `other` that are not defaults.

        Tools and `custom_settings` of both are kept; those of `other` have precedence.
        """
        plain = TAgentConfig()
        changed = {
            name: value
            for name, value in other.to_dict().items()
            if value is not None and value != getattr(plain, name)
        }
        if other.tools is not None:
            changed["tools"] = named_tools(self.tools) | named_tools(other.tools)
        changed["custom_settings"] = {**self.custom_settings, **other.custom_settings}
        return replace(self, **changed)


def named_tools(tools: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any]:
    """Returns tools by their names.

    Raises:
        ConfigError: Two tools of a list have the same name, or one has no name.
    """
    if isinstance(tools, Mapping):
        return dict(tools)
    named: dict[str, Any] = {}
    for tool in tools or ():
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if not isinstance(name, str):
            raise ConfigError(f"{tool!r:.200} has no name: pass tools={{'name': function}}")
        if name in named:
            raise ConfigError(f"two tools are named {name!r}: pass tools={{'name': function}}")
        named[name] = tool
    return named


def _same(variable: str, text: str) -> str:
    return text


def _number(variable: str, text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{variable} must be a number of steps, not {text!r}")
    return int(text)


def _flag(variable: str, text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ConfigError(f"{variable} must be true or false, not {text!r}")
    return text.lower() in _TRUE
