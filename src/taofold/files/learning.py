"""The keys under `ralph.cross_loop_learning`, from `config.yml` or a project's `aiwg.yml`.

The nearer word wins, key by key: aiwg.yml < config.yml < environment < flags. The environment
says `TAOFOLD_LEARNING_INJECTION_TOP_K_PATTERNS=3`. Of an `aiwg.yml` only this part is ours.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field, ValidationError

from taofold.core.json_values import is_object
from taofold.core.text import near
from taofold.files.document import Fault, Strict, YamlDocument, check, load
from taofold.learning.settings import CONTROL_SHARE, MOST_INJECTED, Extraction, Injection, Learning

PREFIX: Final = "TAOFOLD_LEARNING_"
KEY: Final = ("ralph", "cross_loop_learning")
AIWG: Final = ("aiwg.yml", ".aiwg/config.yml")
"""Where the seed keeps these keys, below the project."""

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class ExtractionKeys(Strict):
    """What is learnt from finished loops; see `Extraction`."""

    enabled: bool = True
    auto_extract_on_completion: bool = True
    min_success_rate_threshold: Share = 0.6
    min_usage_count_for_evaluation: Annotated[int, Field(ge=1)] = 3
    extract_code_templates: bool = True
    merge_similar_patterns: bool = True
    similarity_threshold: Share = 0.80


class InjectionKeys(Strict):
    """What loops are told at their start; see `Injection`."""

    enabled: bool = True
    top_k_patterns: Count = 5
    min_success_rate: Share = 0.6
    max_patterns_injected: Annotated[int, Field(ge=0, le=MOST_INJECTED)] = MOST_INJECTED
    include_error_patterns: bool = True
    include_success_patterns: bool = True
    include_anti_patterns: bool = True
    include_code_templates: bool = True
    control_share: Share = CONTROL_SHARE


class LearningKeys(Strict):
    """The whole of `ralph.cross_loop_learning`."""

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
    flags: Mapping[str, Any] = {},
) -> tuple[Learning | None, list[Fault]]:
    """The settings for learning, or everything wrong with them.

    Args:
        paths: Files to look into, the nearest last; those that do not exist are skipped.
        environment: Variables of the process.
        flags: What the command line says, such as `{"injection.top_k_patterns": 3}`.
    """
    groups: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
    faults: list[Fault] = []
    for path in paths:
        if path.is_file():
            document, wrong = load(path)
            faults += wrong
            if document is not None:
                faults += _file(document, groups)
    faults += _environment(environment, groups)
    for flag, value in flags.items():
        group, _, key = flag.partition(".")
        _set(groups, group, key, value, flag, faults)
    if faults:
        return None, faults
    return Learning(
        msgspec.structs.replace(Extraction(), **groups["extraction"]),
        msgspec.structs.replace(Injection(), **groups["injection"]),
    ), []


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
        # Only what was written: defaults must not cover what a farther file says.
        for name, group in (("extraction", keys.extraction), ("injection", keys.injection)):
            said[name] |= {key: getattr(group, key) for key in group.model_fields_set}
    return faults


def _environment(environment: Mapping[str, str], said: dict[str, dict[str, Any]]) -> list[Fault]:
    faults: list[Fault] = []
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX):
            # TAOFOLD_LEARNING_INJECTION_TOP_K…: the first word is the group, the rest is the key.
            group, _, key = variable.removeprefix(PREFIX).lower().partition("_")
            _set(said, group, key, _read(text.strip()), variable, faults)
    return faults


def _read(text: str) -> Any:
    """A word of the environment as a flag or a number, if it is one."""
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
    # `1` and `0` are numbers to _read; a switch takes them as words.
    if field.annotation is bool and not isinstance(value, bool):
        value = _WORDS.get(str(value), value)
    try:
        model.model_validate({key: value})
    except ValidationError as error:
        wrong = error.errors()[0]["msg"].replace("Input should be", "must be")
        faults.append(Fault(source, f"{wrong}, not {value!r}"))
        return
    said[group][key] = value
