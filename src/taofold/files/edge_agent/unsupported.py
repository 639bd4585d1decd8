"""Constructs of The Edge Agent without an equivalent, each with the nearest thing here."""

from typing import Final

_TOOL: Final = "write a function that `tools` names, or use an MCP server; `tool.NAME` calls it"
_SEARCH: Final = (
    "`web.search` with `settings: {search: folder:DIR}` searches text files; a tool searches others"
)
_KEPT: Final = (
    "memory.store and memory.recall keep values of one run; sessions keep conversations; a tool "
    "of your own keeps more"
)
_LOG: Final = "the log keeps every step and call; `taofold runs show` reads it"
_AGENTS: Final = "name other agents under `agents`; `agent.NAME` asks one, `parallel` several"
_TYPED: Final = "`output_format` of a model action is checked, and the model corrects its answer"

ACTIONS: Final[dict[str, str]] = {
    "a2a": f"{_AGENTS}; there is no A2A protocol",
    "academic": _TOOL,
    "actions": _TOOL,
    "agent": _AGENTS,
    "auth": "the server authenticates principals; nodes do not",
    "bmad": _TOOL,
    "cache": _TOOL,
    "catalog": _TOOL,
    "checkpoint": _LOG,
    "code": "python.run runs Python, and command.run a program",
    "context": _TOOL,
    "core.return": "write `result`, and `goto: end`",
    "core.switch": "write `goto: [{if: …, to: …}, …]`",
    "data": _TOOL,
    "embedding": _SEARCH,
    "error": "`on_error` of a node handles failures; `state.errors.NODE` has the message",
    "execution": "write `parallel`, `agent.NAME` or command.run",
    "firestore": _TOOL,
    "git": "command.run runs git, with an approval",
    "github": _TOOL,
    "graph": _TOOL,
    "http": "http.get reads pages; for other requests, write a tool or use an MCP server",
    "learn": "reason.dspy.compile and reason.dspy.optimize improve prompts",
    "llamaextract": f"use llm.call; {_TYPED}",
    "llamaindex": _SEARCH,
    "llm.embed": _SEARCH,
    "llm": "llm.call asks a model, and llm.tools a model with tools",
    "ltm": _KEPT,
    "lua": "rewrite the code in Python for `run`, or as expressions for `set`",
    "markdown": _TOOL,
    "memory": _KEPT,
    "neo4j": _TOOL,
    "notify": _TOOL,
    "obs": _LOG,
    "opik": "write `traces: opik` in .taofold/config.yml",
    "plan": "reason.plan plans tasks, executes them and plans again",
    "prolog": "rewrite the rules in Python for `run`, or as a tool",
    "rag": _SEARCH,
    "ratelimit": "models retry after a rate limit; `max_concurrency` bounds parallel work",
    "reflection": "reason.self_correct drafts, lets a critic judge, and revises",
    "retry": "write `on_error: {retry: {max: 3}}` at the node that may fail",
    "return": "write `result`, and `goto: end`",
    "schema": _TYPED,
    "secrets": "credentials come from the environment of models and tools, never from a file",
    "semtools": _SEARCH,
    "session": "`taofold run --session NAME` continues a conversation",
    "state": "write `set: {NAME: value}`",
    "storage": _TOOL,
    "template": 'write `set: {NAME: "… {{ state.x }} …"}`',
    "text": _TOOL,
    "textgrad": "reason.dspy.optimize improves prompts",
    "tools": _TOOL,
    "trace": _LOG,
    "validate": _TYPED,
    "vector": _SEARCH,
    "web": "web.search and web.scrape search and read",
}
"""Actions by their name, or by its first word."""

KEYS: Final[dict[str, str]] = {
    "auth": "the server authenticates principals (docs/server.md)",
    "endpoint": "`taofold serve` offers the flow over HTTP",
    "extraction_schema": _TYPED,
    "input_schema": "write the types of the inputs under `state_schema`",
    "output_schema": "write `output`: the answer is checked against it",
    "semantic_probes": "reason.self_correct lets a critic judge an answer",
    "validation_constraints": _TYPED,
}
"""Keys of the file's top."""

SETTINGS: Final[dict[str, str]] = {
    "a2a": ACTIONS["a2a"],
    "agents": _AGENTS,
    "auth": KEYS["auth"],
    "error_handling": "write `on_error` at the nodes that may fail",
    "execution": ACTIONS["execution"],
    "firestore": _TOOL,
    "graph": _TOOL,
    "llamaindex": _SEARCH,
    "ltm": _KEPT,
    "lua": ACTIONS["lua"],
    "memory": _KEPT,
    "memory_infrastructure": _TOOL,
    "prolog": ACTIONS["prolog"],
    "rate_limiters": ACTIONS["ratelimit"],
    "secrets": ACTIONS["secrets"],
    "session": ACTIONS["session"],
    "textgrad": ACTIONS["textgrad"],
}
"""Sections of `settings` that change what a run does."""

IGNORED: Final[dict[str, str]] = {
    "auto_trace": _LOG,
    "auto_trace_llm_payloads": _LOG,
    "interview": "`person.ask` asks the user",
    "observability": _LOG,
    "opik": ACTIONS["opik"],
    "opik_llm_tracing": ACTIONS["opik"],
    "opik_trace_export": ACTIONS["opik"],
    "parallel": "`max_concurrency` of a `parallel` node bounds it",
    "progress": "`taofold run` shows each step",
    "trace_exporter": _LOG,
    "trace_file": _LOG,
    "trace_payload_async": _LOG,
    "trace_payload_compress": _LOG,
    "trace_payload_retention_days": _LOG,
    "validation_logging": _LOG,
}
"""Sections of `settings` and keys of the top that change no result."""

NODE_KEYS: Final[dict[str, str]] = {
    "dynamic_parallel": "write `type: dynamic_parallel`, with `items` and `steps` beside it",
    "while_loop": "write `type: while_loop`, with `condition` and `body` beside it",
    "streams": "nodes pass values in the state, not over pipes",
}
"""Keys of a node."""

LANGUAGES: Final[dict[str, str]] = {"lua": ACTIONS["lua"], "prolog": ACTIONS["prolog"]}


_SHARED: Final = frozenset({"http", "llm", "memory", "web"})
"""First words of actions here and there, where a name may also be misspelled."""


def nearest_thing(action: str, near: str) -> str:
    """Returns the nearest thing for an action that is not there.

    Args:
        action: The action.
        near: The hint for a misspelled name.
    """
    first, _, rest = action.partition(".")
    misspelled = first in _SHARED and "." not in rest and near.startswith("did")
    if action not in ACTIONS and (first not in ACTIONS or misspelled):
        return near
    return ACTIONS.get(action) or ACTIONS[first]
