"""Configuration: its keys, its sources, and the keys that a project may set (`PROJECT_KEYS`).

Sources in rising precedence, key by key: the project's `.taofold/config.yml`, the operator's
`config.yml`, the environment, flags (passed by the caller). `Config` holds defaults for agents,
`LimitKeys` the bounds of a run, which agent files may set too.

`LearningKeys` configures learning: the keys under `ralph.cross_loop_learning` of `config.yml` or a
project's `aiwg.yml`. Other keys of that file are ignored. Their precedence is aiwg.yml < config.yml
< environment (`TAOFOLD_LEARNING_INJECTION_TOP_K_PATTERNS=3`). Flags of a loop are in its request.
"""

import os
from collections.abc import Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from taofold.core.json_values import is_object
from taofold.core.text import near
from taofold.files.checked_yaml import Fault, Strict, YamlDocument, check, load
from taofold.learning.settings import Extraction, Injection, Learning
from taofold.reserved_places import operator_folder

LEARNING_PREFIX: Final = "TAOFOLD_LEARNING_"
KEY: Final = ("ralph", "cross_loop_learning")
AIWG: Final = ("aiwg.yml", ".aiwg/config.yml")
"""Files of the seed with these keys, below the project."""

Count = Annotated[int, Field(ge=0)]


class ExtractionKeys(Extraction, Strict):
    """Keys for learning from finished loops."""


class InjectionKeys(Injection, Strict):
    """Keys for lessons at the start of loops."""


class LearningKeys(Strict):
    """The keys of `ralph.cross_loop_learning`."""

    extraction: ExtractionKeys = ExtractionKeys()
    injection: InjectionKeys = InjectionKeys()


class RalphKeys(Strict):
    """The key `ralph` of `config.yml`."""

    cross_loop_learning: LearningKeys = LearningKeys()


_GROUPS: Final[Mapping[str, type[Strict]]] = {
    "extraction": ExtractionKeys,
    "injection": InjectionKeys,
}
_WORDS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_learning(
    paths: Sequence[Path],
    environment: Mapping[str, str] = {},
) -> tuple[Learning | None, list[Fault]]:
    """Returns the settings for learning, or all of their faults.

    Args:
        paths: Files to read, the nearest last. Missing files are skipped.
        environment: Environment variables.
    """
    groups: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
    faults: list[Fault] = []
    for path in paths:
        # Not `is_file`, because a link is refused.
        if os.path.lexists(path):
            document, wrong = load(path)
            faults += wrong
            if document is not None:
                faults += _file(document, groups)
    faults += _learning_environment(environment, groups)
    if faults:
        return None, faults
    return Learning(Extraction(**groups["extraction"]), Injection(**groups["injection"])), []


def _file(document: YamlDocument, said: dict[str, dict[str, Any]]) -> list[Fault]:
    value: Any = document.value
    for depth, key in enumerate(KEY):
        if not is_object(value):
            return [document.fault(KEY[:depth], "must be a mapping of keys to values")]
        value = value.get(key)
        if value is None:
            return []
    keys, faults = check(document, LearningKeys, value, KEY)
    if keys is not None:
        # Only written values: defaults must not override a file with lower precedence.
        for name, group in (("extraction", keys.extraction), ("injection", keys.injection)):
            said[name] |= {key: getattr(group, key) for key in group.model_fields_set}
    return faults


def _learning_environment(
    environment: Mapping[str, str], said: dict[str, dict[str, Any]]
) -> list[Fault]:
    faults: list[Fault] = []
    for variable, text in sorted(environment.items()):
        if variable.startswith(LEARNING_PREFIX):
            # TAOFOLD_LEARNING_INJECTION_TOP_K…: the first word is the group, the rest is the key.
            group, _, key = variable.removeprefix(LEARNING_PREFIX).lower().partition("_")
            _set(said, group, key, _read(text.strip()), variable, faults)
    return faults


def _read(text: str) -> Any:
    """Returns a value of the environment as a flag or number if possible."""
    if text.lower() in ("true", "yes", "false", "no"):
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            # int before float: `3` is a count, `0.8` a share.
            return kind(text)
        except ValueError:
            continue
    return text


def _set(
    said: dict[str, dict[str, Any]],
    group: str,
    key: str,
    value: Any,
    source: str,
    faults: list[Fault],
) -> None:
    model = _GROUPS.get(group)
    field = model.model_fields.get(key) if model else None
    if model is None or field is None:
        key_names = [f"{name}.{key}" for name, keys in _GROUPS.items() for key in keys.model_fields]
        hint = near(f"{group}.{key}", key_names)
        faults.append(Fault(source, f"there is no setting {f'{group}.{key}'!r}", hint=hint))
        return
    # `_read` returns `1` and `0` as numbers. A flag accepts them as words.
    if field.annotation is bool and not isinstance(value, bool):
        value = _WORDS.get(str(value), value)
    try:
        model.model_validate({key: value})
    except ValidationError as error:
        wrong = error.errors()[0]["msg"].replace("Input should be", "must be")
        faults.append(Fault(source, f"{wrong}, not {value!r}"))
        return
    said[group][key] = value


PREFIX: Final = "TAOFOLD_"
_LIMITS: Final = "TAOFOLD_LIMITS_"

Amount = Annotated[float, Field(ge=0)]


class LimitKeys(Strict):
    """Bounds of a run. See `Limits`."""

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
        """Returns the written values."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Config(Strict):
    """The keys of the configuration."""

    model: str = ""
    provider: str = "openai"
    traces: Literal["", "otlp", "opik"] = ""
    """Destination of traces. The back end's own variables have the details."""
    traces_content: bool = False
    """Exports the content of runs too, redacted."""
    limits: LimitKeys = LimitKeys()
    ralph: RalphKeys = RalphKeys()


PROJECT_KEYS: Final[Mapping[str, str]] = {
    "model": "the default model; its address and key are the operator's",
    "provider": "the provider of a model name without one",
    "limits": "limits of a run; the operator's replace them",
    "ralph": "settings of learning in this project's loops",
}
"""The keys that a project's file may set, and their effects.

The file comes with a repository. Only the operator sets trace destinations, content export, network
access and trust.
"""


def read_config(
    path: Path | None, environment: Mapping[str, str], operator: Path | None = None
) -> tuple[Config | None, list[Fault]]:
    """Returns the merged configuration: project, then operator, then environment.

    Args:
        path: The project's file, with only `PROJECT_KEYS`.
        environment: Environment variables.
        operator: The operator's own file.
    """
    project, faults = _configuration_file(path)
    if path is not None and project is not None:
        faults += _not_the_projects(path, project)
    own, wrong = _configuration_file(operator)
    values, others = _environment(environment)
    faults = [*faults, *wrong, *others]
    if faults or project is None or own is None:
        return None, faults
    said = {name: getattr(own, name) for name in own.model_fields_set}
    # Merged limit by limit, so that one changed limit keeps the others.
    limits = {**project.limits.given(), **own.limits.given(), **values.pop("limits")}
    changes = {**said, **values, "limits": LimitKeys(**limits)}
    return project.model_copy(update=changes), []


def _configuration_file(path: Path | None) -> tuple[Config | None, list[Fault]]:
    if path is None:
        return Config(), []
    document, faults = load(path)
    return check(document, Config) if document is not None else (None, faults)


def _not_the_projects(path: Path, config: Config) -> list[Fault]:
    """Returns a fault for each key that only the operator may set."""
    document, _ = load(path)
    assert document is not None
    return [
        document.fault(
            (key,),
            "a project may not set this: it came with a repository",
            f"set it in {str(operator_folder() / 'config.yml')!r}, or as {PREFIX}{key.upper()}",
        )
        for key in config.model_fields_set - PROJECT_KEYS.keys()
    ]


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
    if text := environment.get("TAOFOLD_TRACES_CONTENT", "").strip():
        if text.lower() not in _WORDS:
            faults.append(Fault("TAOFOLD_TRACES_CONTENT", f"must be true or false, not {text!r}"))
        values["traces_content"] = _WORDS.get(text.lower(), False)
    for variable, text in sorted(environment.items()):
        if variable.startswith(_LIMITS):
            _limit(variable, text.strip(), values["limits"], faults)
    return values, faults


def _limit(variable: str, text: str, limits: dict[str, Any], faults: list[Fault]) -> None:
    name = variable.removeprefix(_LIMITS).lower()
    names = [key for key in LimitKeys.model_fields if key != "per_tool"]
    if name not in names:
        faults.append(Fault(variable, f"there is no limit {name!r}", hint=near(name, names)))
        return
    number = _read(text)
    try:
        LimitKeys.model_validate({name: number})
    except ValidationError:
        number = nan
    if isfinite(number):
        limits[name] = number
    else:
        faults.append(Fault(variable, f"must be a number, 0 or more, not {text!r}"))
