"""Translates a whole file of The Edge Agent: its top keys, then its nodes.

The translation needs no file and no environment. It reports every construct without an equivalent
as a fault at its line, and every difference as a note.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.files.checked_yaml import Fault, KeyPath, YamlDocument
from taofold.files.code_names import written_names
from taofold.files.edge_agent.graph import GraphTranslator, tidy
from taofold.files.edge_agent.interrupts import AFTER, BEFORE, Interrupts
from taofold.files.edge_agent.made import MOST_NODES, Findings, Made, plain
from taofold.files.edge_agent.models import named
from taofold.files.edge_agent.nodes import NodeTranslator
from taofold.files.edge_agent.texts import TemplateTexts
from taofold.files.edge_agent.types import types
from taofold.files.edge_agent.unsupported import IGNORED, KEYS, SETTINGS
from taofold.runtime.providers import is_provider

_LLM: Final = frozenset({"model", "deployment", "provider", "temperature", "effort"})
_DEEPEST: Final = 40


@dataclass(frozen=True, slots=True)
class Translation:
    """The document in our form, with what it refuses and what differs."""

    document: YamlDocument
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()


def translated(document: YamlDocument) -> Translation:
    """Returns a document that `recognition.is_foreign` recognises, in our form."""
    findings = Findings(document)
    deep = _too_deep(document.value)
    if deep is not None:
        findings.refuse(deep, f"is nested more than {_DEEPEST} deep")
        return Translation(replace(document, value={}), tuple(findings.faults))
    # The compiler reads no more, and a translation of them takes long.
    if len(document.value["nodes"]) > MOST_NODES:
        count = len(document.value["nodes"])
        findings.refuse(("nodes",), f"has {count} nodes; at most {MOST_NODES} are read")
        return Translation(replace(document, value={}), tuple(findings.faults))
    value, made = document.value, Made(())
    texts = TemplateTexts(findings)
    variables = value.get("variables")
    constants: Mapping[str, Any] = variables if is_object(variables) else {}
    config = value.get("config")
    nodes = NodeTranslator(findings, texts, constants, Interrupts(findings, value))
    graph = GraphTranslator(findings, texts, nodes)
    texts.written = frozenset(_written(value["nodes"]))
    written, start = graph.translate(value["nodes"], value.get("edges"))
    tidy(written)
    for key, part in value.items():
        _top(made, key, part, findings)
    _settings(made, value.get("settings"), findings, texts)
    if is_object(config):
        _config(made, config, findings)
    elif config is not None:
        findings.refuse(("config",), "must be a mapping")
    if start:
        made["start"] = start
    moved = {section: value[section] for section in sorted(texts.settings) if section in value}
    if constants or moved:
        made.put("variables", {**constants, **moved}, ("variables",))
    types(made, value.get("state_schema"), written)
    made["nodes"] = written
    made.setdefault("result", "{{ state }}")
    places: dict[KeyPath, KeyPath] = {}
    body = plain(made, (), places)
    ours = replace(document, value=body, places=places)
    return Translation(ours, tuple(findings.faults), tuple(findings.notes))


def _written(nodes: Any) -> Iterator[str]:
    """Yields the variables that nodes of the source set."""
    for node in nodes if is_array(nodes) else ():
        if not is_object(node):
            continue
        for key in ("output", "outputs", "output_key"):
            part = node.get(key)
            yield from (
                map(str, part) if is_object(part) else [part] if isinstance(part, str) else []
            )
        for key in ("run", "script"):
            code = node.get(key)
            yield from written_names(code) if isinstance(code, str) else ()
            if is_object(code) and isinstance(code.get("output_key"), str):
                yield code["output_key"]
        for key in ("steps", "body"):
            yield from _written(node.get(key))


def _too_deep(value: Any) -> KeyPath | None:
    left: list[tuple[Any, KeyPath]] = [(value, ())]
    while left:
        item, path = left.pop()
        if len(path) > _DEEPEST:
            return path[:_DEEPEST]
        if is_object(item):
            left += [(inner, (*path, str(key))) for key, inner in item.items()]
        elif is_array(item):
            left += [(inner, (*path, index)) for index, inner in enumerate(item)]
    return None


def _top(made: Made, key: str, value: Any, findings: Findings) -> None:
    """Takes over one key of the file's top."""
    path = (key,)
    if key in ("nodes", "edges", "variables", "data", "settings", "config", "state_schema"):
        return
    if key in (BEFORE, AFTER, "checkpoint"):
        return
    if key == "version":
        made.put(key, str(value), path)
    elif key == "initial_state":
        made.put(key, {} if value is None else value, path)
    elif key == "imports":
        _imports(made, value, findings)
    elif key in KEYS:
        findings.refuse(path, f"{key!r} is not there", KEYS[key])
    elif key in IGNORED:
        findings.note(path, f"{key!r} has no effect here", IGNORED[key])
    elif key == "name":
        made.put(key, str(value), path)
    elif not key.startswith("_"):
        # The compiler reports an unknown key.
        made.put(key, value, path)


def _imports(made: Made, value: Any, findings: Findings) -> None:
    flows: list[Any] = []
    for index, entry in enumerate(value if is_array(value) else ()):
        name = entry.get("path", entry.get("package", "")) if is_object(entry) else entry
        if isinstance(name, str) and name.endswith((".yaml", ".yml")):
            flows.append(entry)
        else:
            findings.refuse(
                ("imports", index),
                f"actions of {name!r} are not imported",
                "name their functions under `tools` (file.py:function) and call tool.NAME",
            )
    if flows:
        made.put("imports", flows, ("imports",))


def _settings(made: Made, value: Any, findings: Findings, texts: TemplateTexts) -> None:
    if value is None:
        return
    path: KeyPath = ("settings",)
    if not is_object(value):
        made.put("settings", value, path)
        return
    ours = Made(path)
    for key, section in value.items():
        where = (*path, str(key))
        if key == "llm":
            _llm(ours, section, findings, texts)
        elif key == "shell_providers":
            findings.note(
                where,
                "no program of this machine answers; the model of the run does",
                "`taofold run claude GOAL` runs a coding agent",
            )
        elif key in SETTINGS:
            findings.refuse(where, f"'settings.{key}' is not there", SETTINGS[key])
        elif key in IGNORED:
            findings.note(where, f"'settings.{key}' has no effect here", IGNORED[key])
        else:
            ours.put(str(key), _rewritten(section, where, texts), where)
    if ours:
        made.put("settings", ours, path)


def _llm(ours: Made, section: Any, findings: Findings, texts: TemplateTexts) -> None:
    path: KeyPath = ("settings", "llm")
    if not is_object(section):
        findings.refuse(path, "must be a mapping")
        return
    provider = section.get("provider", section.get("default_provider", ""))
    model = section.get("deployment", section.get("model", section.get("default_model", "")))
    own = isinstance(provider, str) and is_provider(provider)
    if provider and not own and provider not in ("auto", "local"):
        findings.note(
            (*path, "provider"),
            f"the provider {provider!r} is not known; the model of the run answers",
            "write `model: PROVIDER:NAME`",
        )
    elif isinstance(model, str) and model and provider != "local":
        text = texts.template(model, (*path, "model"), setting=True)
        ours.put("model", named(text, provider if own else ""), path)
    if own:
        ours.put("provider", provider, path)
    if isinstance(warmth := section.get("temperature"), int | float):
        ours.put("temperature", float(warmth), (*path, "temperature"))
    known = {*_LLM, "default_provider", "default_model"}
    for key in section:
        if key not in known:
            findings.note((*path, str(key)), f"'settings.llm.{key}' has no effect here")


def _rewritten(value: Any, path: KeyPath, texts: TemplateTexts) -> Any:
    if isinstance(value, str):
        return texts.template(value, path, setting=True)
    if is_object(value):
        return {key: _rewritten(inner, (*path, str(key)), texts) for key, inner in value.items()}
    if is_array(value):
        return [_rewritten(inner, (*path, index), texts) for index, inner in enumerate(value)]
    return value


def _config(made: Made, config: Mapping[str, Any], findings: Findings) -> None:
    for name, value in config.items():
        key = str(name)
        path = ("config", key)
        if key == "max_execution_time" and isinstance(value, int | float):
            limits = made.get("limits")
            known: Mapping[str, Any] = limits if is_object(limits) else {}
            # The original counts milliseconds.
            made.put("limits", {"seconds": max(1.0, value / 1000), **known}, path)
        elif key in ("checkpoint_dir", "checkpoint"):
            findings.note(path, f"'config.{key}' has no effect: the log keeps every step")
        elif key.lower().startswith("interrupt") and key not in (BEFORE, AFTER):
            findings.refuse(path, f"unknown key {key!r} of config", near(key, (BEFORE, AFTER)))
        elif key in ("raise_exceptions", BEFORE, AFTER):
            continue
        else:
            findings.note(path, f"'config.{key}' has no effect here")
