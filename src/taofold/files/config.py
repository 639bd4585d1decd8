"""Configuration (`.taofold/config.yml` < environment < flags, which are the caller's) and policies.

Configuration is defaults for agents that do not say otherwise. Of two policy files, the operator's
and a project's, the project's may only tighten the other (D16).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from taofold.core.text import near
from taofold.core.values import Tier
from taofold.files.document import Fault, KeyPath, Strict, YamlDocument, check, load
from taofold.files.learning import RalphKeys
from taofold.policy import Policy
from taofold.policy.policy import Autonomy, Right, loosened

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
    values, wrong = _environment(environment)
    faults = [*faults, *wrong]
    if faults:
        return None, faults
    # Merged limit by limit: the environment changes one without forgetting the others.
    limits = LimitKeys(**{**file.limits.given(), **values.pop("limits")})
    return file.model_copy(update={**values, "limits": limits}), []


def _environment(environment: Mapping[str, str]) -> tuple[dict[str, Any], list[Fault]]:
    values: dict[str, Any] = {"limits": {}}
    faults: list[Fault] = []
    for name in ("model", "provider"):
        if text := environment.get(PREFIX + name.upper(), "").strip():
            values[name] = text
    if text := environment.get("TAOFOLD_TRACES", "").strip():
        if text not in ("otlp", "opik"):
            faults.append(Fault("TAOFOLD_TRACES", f"must be otlp or opik, not {text!r}"))
        values["traces"] = text
    if text := environment.get("TAOFOLD_STRICT", "").strip().lower():
        if text not in _WORDS:
            faults.append(Fault("TAOFOLD_STRICT", f"must be true or false, not {text!r}"))
        values["strict"] = _WORDS.get(text, True)
    for variable, text in sorted(environment.items()):
        if variable.startswith(_LIMITS):
            _limit(variable, text.strip(), values["limits"], faults)
    return values, faults


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
        # Falls through to the one message for everything that is no number, 0 or more.
        number = kind(-1)
    if not 0 <= number < float("inf"):
        faults.append(Fault(variable, f"must be a number, 0 or more, not {text!r}"))
        return
    limits[name] = number


Level = Annotated[int, Field(ge=1, le=4)]

_OPERATORS: Final = ("roles", "approvers", "rights")
"""Keys that say who is who: never a project's business."""


class PolicyFile(Strict):
    """The keys of a policy file; see `Policy`."""

    autonomy: Autonomy = "balanced"
    tiers: dict[str, Level] = {}
    allow: list[str] | None = None
    deny: list[str] = []
    roles: dict[str, Annotated[int, Field(ge=0)]] = {}
    required: dict[str, str] = {}
    production: bool = False
    production_tiers: dict[str, Level] = {}
    approvers: str = ""
    own_approval: bool = True
    approve_seconds: Annotated[float, Field(ge=0)] = 0.0
    rights: dict[Right, str] = {}

    def over(self, base: Policy) -> Policy:
        """`base` with what this file says, and nothing else, changed."""
        # Only what was written: a default must not undo what the operator has said.
        values: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name in ("tiers", "production_tiers"):
            if name in values:
                values[name] = {tool: Tier(level) for tool, level in values[name].items()}
        for name in ("allow", "deny"):
            if values.get(name) is not None:
                values[name] = frozenset(values[name])
        return replace(base, **values)


def read_policy(path: Path, source: str = "") -> tuple[PolicyFile | None, list[Fault]]:
    """The policy file at `path`, or everything wrong with it."""
    document, faults = load(path, source)
    return (None, faults) if document is None else check(document, PolicyFile)


def tighten(
    operator: Policy, keys: PolicyFile, document: YamlDocument, key_path: KeyPath = ()
) -> tuple[Policy, list[Fault]]:
    """Both policies at once; a project's key that would loosen is a fault."""
    # Compared as a whole policy: a key that the project leaves out is the operator's.
    project = keys.over(operator)
    faults: list[Fault] = []
    foreign = [name for name in _OPERATORS if name in keys.model_fields_set]
    reasons = [f"{name}: only the operator's policy says this" for name in foreign]
    for reason in [*reasons, *loosened(project, operator)]:
        path, _, why = reason.partition(": ")
        where = (*key_path, *path.split(".", 1))
        hint = "a project may only tighten; loosen in your own policy file, or with a flag"
        faults.append(document.fault(where, f"looser than the operator's policy ({why})", hint))
    # Stricter in each point, even where a fault was found: nothing is loosened meanwhile.
    return operator.tightened(project), faults
