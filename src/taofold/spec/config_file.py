"""Configuration: `.taofold/config.yml` < environment < flags (the flags are the caller's).

These are defaults for agents that do not say otherwise.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from taofold.core.text import near
from taofold.spec.document import Strict, check, load
from taofold.spec.faults import Fault
from taofold.spec.learning_file import RalphKeys

PREFIX: Final = "TAOFOLD_"
_LIMITS: Final = "TAOFOLD_LIMITS_"

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]


class LimitKeys(Strict):
    """Bounds of a run; see `Limits`."""

    steps: Count | None = None
    model_calls: Count | None = None
    tool_calls: Count | None = None
    seconds: Amount | None = None
    tokens: Count | None = None
    usd: Amount | None = None
    per_tool: dict[str, Count] = {}
    parse_retries: Count = 2
    depth: Count = 3

    def given(self) -> dict[str, Any]:
        """What was said, and nothing else."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Config(Strict):
    """The keys of the configuration."""

    model: str = ""
    provider: str = "openai"
    strict: bool = True
    traces: Literal["", "otlp", "opik"] = ""
    """Where runs are traced to; the back end's own variables say the rest."""
    traces_content: bool = False
    """Tell it also what was said, redacted."""
    limits: LimitKeys = LimitKeys()
    ralph: RalphKeys = RalphKeys()


def read_config(
    path: Path | None, environment: Mapping[str, str]
) -> tuple[Config | None, list[Fault]]:
    """The configuration file, if there is one, with the environment over it."""
    file, faults = Config(), list[Fault]()
    if path is not None:
        document, faults = load(path)
        if document is not None:
            read, faults = check(document, Config)
            file = read or file
    said, wrong = _environment(environment)
    faults = [*faults, *wrong]
    if faults:
        return None, faults
    limits = LimitKeys(**{**file.limits.given(), **said.pop("limits")})
    return file.model_copy(update={**said, "limits": limits}), []


def _environment(environment: Mapping[str, str]) -> tuple[dict[str, Any], list[Fault]]:
    said: dict[str, Any] = {"limits": {}}
    faults: list[Fault] = []
    for name in ("model", "provider"):
        if text := environment.get(PREFIX + name.upper(), "").strip():
            said[name] = text
    if text := environment.get("TAOFOLD_TRACES", "").strip():
        if text not in ("otlp", "opik"):
            faults.append(Fault("TAOFOLD_TRACES", f"must be otlp or opik, not {text!r}"))
        said["traces"] = text
    if text := environment.get("TAOFOLD_STRICT", "").strip().lower():
        if text not in _WORDS:
            faults.append(Fault("TAOFOLD_STRICT", f"must be true or false, not {text!r}"))
        said["strict"] = _WORDS.get(text, True)
    for variable, text in sorted(environment.items()):
        if variable.startswith(_LIMITS):
            _limit(variable, text.strip(), said["limits"], faults)
    return said, faults


_WORDS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_NUMBERS: Final[Mapping[str, type[int] | type[float]]] = {
    "steps": int,
    "model_calls": int,
    "tool_calls": int,
    "seconds": float,
    "tokens": int,
    "usd": float,
    "parse_retries": int,
    "depth": int,
}


def _limit(variable: str, text: str, limits: dict[str, Any], faults: list[Fault]) -> None:
    name = variable.removeprefix(_LIMITS).lower()
    kind = _NUMBERS.get(name)
    if kind is None:
        faults.append(Fault(variable, f"there is no limit {name!r}", hint=near(name, _NUMBERS)))
        return
    try:
        number = kind(text)
    except ValueError:
        number = kind(-1)
    if not 0 <= number < float("inf"):
        faults.append(Fault(variable, f"must be a number, 0 or more, not {text!r}"))
        return
    limits[name] = number
