"""TAgent's names over taofold's runtime.

A program written for TAgent changes its import and runs:

    from taofold.compat.tagent import TAgentConfig, run_agent

Most programs use only `run_agent(goal, model, tools)`, a thin layer over `Agent`, with
`TAgentConfig`. The rest is for programs with their own loop. `Store` is a state that changes only
through actions. `query_llm` asks for the next decision, `evaluate_goal_achievement` for a
judgement. `format_final_output` converts a state to the result. `register_custom_action` and
`SYSTEM_ACTIONS` register actions of the process. `llm_client` and `LLM_PROVIDERS` are models with
`completion(model, messages)`, and `integrate_custom_llm` adds the caller's own. Errors are those of
`taofold.core.errors`, also where TAgent raises others or continues silently (an unreadable reply, a
missing model). A name of TAgent that is missing raises `ImportError` with its equivalent.
"""

from typing import Any, Final

from taofold.compat.tagent.agent import OverIterations, run_agent
from taofold.compat.tagent.clients import (
    LLM_PROVIDERS,
    SYSTEM_ACTIONS,
    format_conversation_as_chat,
    integrate_custom_llm,
    llm_client,
    register_custom_action,
)
from taofold.compat.tagent.config import TAgentConfig
from taofold.compat.tagent.decisions import (
    StructuredResponse,
    build_decision_prompt,
    evaluate_goal_achievement,
    format_final_output,
    query_llm,
)
from taofold.compat.tagent.model_names import AgentModelConfig
from taofold.compat.tagent.result import TagentResult
from taofold.compat.tagent.store import AgentState, TagentStore
from taofold.core.rules import detect_action_loop
from taofold.tools.tool import get_tool_documentation

Store = TagentStore
TaskBasedAgentResult = TagentResult

FLOWS: Final = "write the pipeline as a flow in YAML (docs/agent-files.md)"
_SCRIPTED: Final = "pass model=taofold.testing.ScriptedModel([…]) to run_agent"
_MISSING: Final = {
    "run_task_based_agent": "call run_agent",
    "query_llm_with_adapter": "call query_llm",
    "set_llm_adapter": _SCRIPTED,
    "MockLLMAdapter": _SCRIPTED,
    "LiteLLMAdapter": "pass the model's name to run_agent",
    "load_config": "read the file and call TAgentConfig.from_dict",
    "UIStyle": "leave ui_style out; verbose=True prints the steps",
    "AgentStateMachine": "run_agent(strategy='plan') plans, executes and evaluates in this order",
    "ActionType": "run_agent(strategy='plan') plans, executes and evaluates in this order",
    "run_pipeline": FLOWS,
    "pipeline": FLOWS,
    "Pipeline": FLOWS,
    "PipelineStep": FLOWS,
    "PipelineBuilder": FLOWS,
    "PipelineExecutor": FLOWS,
    "PipelineExecutorConfig": FLOWS,
    "PipelineResult": FLOWS,
    "ExecutionMode": FLOWS,
}
"""TAgent's names that taofold does not have, with what to do instead."""


def __getattr__(name: str) -> Any:
    # ImportError in place of AttributeError, so that `from … import name` shows this message.
    if name in _MISSING:
        raise ImportError(f"taofold.compat.tagent has no {name}: {_MISSING[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "LLM_PROVIDERS",
    "SYSTEM_ACTIONS",
    "AgentModelConfig",
    "AgentState",
    "OverIterations",
    "Store",
    "StructuredResponse",
    "TAgentConfig",
    "TagentResult",
    "TaskBasedAgentResult",
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
