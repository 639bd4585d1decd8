"""The words of the reply protocol: what the model is told, once, at the top.

The text depends only on the task, so the prefix of the prompt keeps its bytes from
turn to turn. Knows nothing about how replies are read.
"""

from typing import Final

from taofold.core.values import FINISH
from taofold.parsing import render_schema
from taofold.reasoning.task import Offer, Task

_FORM: Final = """\
Work in steps. Each reply is exactly one JSON object, nothing before or after it:
{"thought": "<what you conclude and why this action is next>", "thought_type": "<type>", \
"because": [<numbers of the steps you rely on>], \
"action": {"tool": "<name>", "parameters": {…}, "rationale": "<why this tool>"}}
Several independent calls: "actions": [ … ] instead of "action".
Types: goal, progress, extraction, reasoning, exception, synthesis%s.
Rules:
- Every reply has a thought and an action. Quote concrete values from earlier observations.
- Never write an observation yourself; it comes after your reply.
- After a failure or a timeout the next thought is an exception: say why it failed and what \
you change. Never repeat a failed action unchanged.
- When the goal is reached: "action": {"tool": "finish", "parameters": {"answer": %s}}
- When it cannot be reached: the same with "success": false beside the answer that says why."""
_NATIVE: Final = """\
Before each tool call say in a sentence or two what you conclude and why this call is next; \
quote concrete values from earlier results. Never invent a tool's result. \
After a failure say why it failed and what you change; never repeat a failed call unchanged."""
_RESEARCH: Final = ", research (look things up; change nothing in that step)"
_ASK_USER: Final = (
    '\n- To ask the person: "action": {"tool": "ask_user", "parameters": {"question": "…"}}'
)
WRAP_UP: Final = (
    "This is your last turn and no tool can be used any more. "
    "Give the best answer you can from what you know%s."
)


def system_prompt(task: Task) -> str:
    """Instructions, tools and protocol."""
    parts = [task.instructions.strip()] if task.instructions.strip() else []
    if task.native:
        if task.offers:
            parts.append(_NATIVE)
        if not task.output.text:
            parts.append(
                f"When you are done call {FINISH} with an answer of this type: "
                f"{task.output.rendered()}"
            )
        return "\n\n".join(parts)
    if task.offers:
        parts.append("Tools:\n" + "\n".join(signature(offer) for offer in task.offers))
    answer = '"<text>"' if task.output.text else f"<{task.output.rendered()}>"
    form = _FORM % (_RESEARCH if task.research else "", answer)
    parts.append(form + (_ASK_USER if task.ask_user else ""))
    return "\n\n".join(parts)


def signature(offer: Offer) -> str:
    """A tool as one line of signature and its full description."""
    said = f"{offer.name}({render_schema(offer.schema)})"
    description = offer.description.strip()
    return f"- {said}: {description}" if description else f"- {said}"


def wrap_up(task: Task) -> str:
    """The notice that opens the last turn."""
    if task.native:
        return WRAP_UP % ""
    return WRAP_UP % f' with "tool": "{FINISH}"'
