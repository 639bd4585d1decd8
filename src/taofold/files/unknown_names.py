"""Notes about tools that the policy of an agent file names and the agent lacks.

A note is no fault: several agents may share a policy. `limits.per_tool` is checked with the agent.
"""

from collections.abc import Collection
from pathlib import Path

from taofold.agent.unknown_names import unknown_names
from taofold.core.effects import hand_off_tool
from taofold.files.agent import AgentFile, CommandOptions, FilesOptions
from taofold.files.checked_yaml import Fault, YamlDocument, check, load
from taofold.files.policy import PolicyFile
from taofold.files.tools import InlineTool
from taofold.memory import memory_tools
from taofold.policy import Policy
from taofold.tools import Tool
from taofold.tools.container_network import Reach


def policy_notes(file: AgentFile, known: Collection[str]) -> list[Fault]:
    """Returns a note for each name in the file's own policy that is not among the `known` tools.

    Args:
        file: The agent file. The operator's policy is not judged.
        known: The names and aliases of the tools.
    """
    document, key_path = file.document, ("policy",)
    value = document.value.get("policy")
    if isinstance(value, str):
        other, _ = load(document.folder / value)
        if other is None:
            return []
        return _notes(other, other.value, (), known)
    return [] if value is None else _notes(document, value, key_path, known)


def _notes(
    document: YamlDocument, value: object, key_path: tuple[str, ...], known: Collection[str]
) -> list[Fault]:
    keys, _ = check(document, PolicyFile, value, key_path)
    if keys is None:
        return []
    unknown = unknown_names(keys.over(Policy()), known)
    return [document.fault((*key_path, *each.key), each.reason) for each in unknown]


def listed_names(file: AgentFile) -> set[str] | None:
    """Returns the names of the tools of a run, or None if only their code or servers know them."""
    names: set[str] = set()
    for member in {id(each): each for each in (file, *file.team.values())}.values():
        keys = member.keys
        if keys.mcp or keys.discover or keys.skills or "nodes" in member.document.value:
            return None
        for use in member.tools:
            if use.options is None:
                return None
            names |= _names(use.name, use.options)
        names |= set(memory_tools()) if keys.memory else set()
        names.add(hand_off_tool(keys.name))
    return names


def _names(name: str, options: FilesOptions | CommandOptions | InlineTool) -> set[str]:
    if isinstance(options, InlineTool):
        return {name}
    made = options.model_copy(update={"root": "."}).tool(Path.cwd(), Reach())
    return {made.name, *made.aliases} if isinstance(made, Tool) else set(made)
