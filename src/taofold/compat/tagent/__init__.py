"""TAgent's names, over the same runtime as everything else.

A program written for TAgent changes its import and runs:

    from taofold.compat.tagent import Store, query_llm, run_agent

`run_agent` is the front door. The rest is for programs that have a loop of their own: `Store`,
`query_llm`, `build_decision_prompt`, `evaluate_goal_achievement`, `format_final_output`. Where
TAgent would raise or go on silently (a reply that cannot be read, a model that is not there) the
errors are those of `taofold.core.errors`.
"""

from taofold.compat.tagent.clients import LLM_PROVIDERS, integrate_custom_llm, llm_client
from taofold.compat.tagent.own_loop import (
    SYSTEM_ACTIONS,
    AgentState,
    StructuredResponse,
    build_decision_prompt,
    evaluate_goal_achievement,
    format_conversation_as_chat,
    format_final_output,
    query_llm,
    register_custom_action,
)
from taofold.compat.tagent.own_loop import TagentStore as Store
from taofold.compat.tagent.runner import OverIterations, run_agent
from taofold.core.rules import detect_action_loop
from taofold.tools.tool import get_tool_documentation

__all__ = [
    "LLM_PROVIDERS",
    "SYSTEM_ACTIONS",
    "AgentState",
    "OverIterations",
    "Store",
    "StructuredResponse",
    "build_decision_prompt",
    "detect_action_loop",
    "evaluate_goal_achievement",
    "format_conversation_as_chat",
    "format_final_output",
    "get_tool_documentation",
    "integrate_custom_llm",
    "llm_client",
    "query_llm",
    "register_custom_action",
    "run_agent",
]
