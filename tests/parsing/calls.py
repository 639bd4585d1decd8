"""Tool calls as model families write them: one function for each dialect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Arguments = dict[str, Any]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def text(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


def python(arguments: Arguments) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


def call(name: str, arguments: Arguments) -> Arguments:
    return {"name": name, "arguments": arguments}


def parameters(arguments: Arguments, opening: str, closing: str, frame: str = "") -> str:
    return "".join(
        f"{opening.format(key)}{frame}{text(value)}{frame}{closing}\n"
        for key, value in arguments.items()
    )


def invoke(name: str, arguments: Arguments, prefix: str = "") -> str:
    body = parameters(arguments, f'<{prefix}parameter name="{{}}">', f"</{prefix}parameter>")
    return f'<{prefix}invoke name="{name}">\n{body}</{prefix}invoke>'


def dsml(name: str, arguments: Arguments) -> str:
    bar = "｜DSML｜"
    body = "".join(
        f'<{bar}parameter name="{key}" string="{"true" if isinstance(value, str) else "false"}">'
        f"{text(value)}</{bar}parameter>\n"
        for key, value in arguments.items()
    )
    return (
        f'<{bar}function_calls>\n<{bar}invoke name="{name}">\n{body}</{bar}invoke>\n'
        f"</{bar}function_calls>"
    )


def gemma(name: str, arguments: Arguments) -> str:
    quote = '<|"|>'
    body = ",".join(
        f"{key}:" + (f"{quote}{value}{quote}" if isinstance(value, str) else dump(value))
        for key, value in arguments.items()
    )
    return f"<|tool_call>call:{name}{{{body}}}<tool_call|>"


def tao_lines(arguments: Arguments, before: str = " ") -> str:
    return "".join(
        f"{before}{key}: {value if isinstance(value, str) and chr(10) not in value else dump(value)}\n"  # noqa: E501
        for key, value in arguments.items()
    )


DIALECTS: dict[str, Callable[[str, Arguments], str]] = {
    "hermes": lambda n, a: f"<tool_call>\n{dump(call(n, a))}\n</tool_call>",
    "hermes, python literals": lambda n, a: f"<tool_call>\n{call(n, a)!r}\n</tool_call>",
    "hermes, encoded": lambda n, a: f"<tool_call>{dump(call(n, a | {}))}</tool_call>",
    "apriel": lambda n, a: (
        f"[BEGIN FINAL RESPONSE]\n<tool_calls>[{dump(call(n, a))}]</tool_calls>\n"
        "[END FINAL RESPONSE]"
    ),
    "llama 3": lambda n, a: "<|python_tag|>" + dump({"name": n, "parameters": a}),
    "llama function": lambda n, a: f"<function={n}>{dump(a)}</function>",
    "mistral": lambda n, a: "[TOOL_CALLS]" + dump([{**call(n, a), "id": "abc"}]) + "</s>",
    "mistral args": lambda n, a: f"[TOOL_CALLS]{n}[ARGS]{dump(a)}",
    "harmony": lambda n, a: (
        "<|channel|>analysis<|message|>I {x}.<|end|><|start|>assistant<|channel|>commentary"
        f" to=functions.{n} <|constrain|>json<|message|>{dump(a)}<|call|>"
    ),
    "harmony, other order": lambda n, a: (
        f"<|start|>assistant to=functions.{n}<|channel|>commentary json<|message|>{dump(a)}<|call|>"
    ),
    "deepseek": lambda n, a: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{dump(a)}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek 3.1": lambda n, a: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{dump(a)}<｜tool▁call▁end｜>"
    ),
    "deepseek markup": dsml,
    "deepseek markup, short": lambda n, a: dsml(n, a).replace("function_calls>", " calls>"),
    "kimi": lambda n, a: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{n}:0"
        f"<|tool_call_argument_begin|>{dump(a)}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "granite": lambda n, a: "<|tool_call|>" + dump([call(n, a)]),
    "phi": lambda n, a: "functools" + dump([call(n, a)]),
    "cohere": lambda n, a: (
        f"<|START_ACTION|>[\n {dump({'tool_call_id': '0', 'tool_name': n, 'parameters': a})}\n]"
        "<|END_ACTION|>"
    ),
    "qwen coder": lambda n, a: (
        f"<tool_call>\n<function={n}>\n"
        + parameters(a, "<parameter={}>", "</parameter>", "\n")
        + "</function>\n</tool_call>"
    ),
    "qwen coder, no opener": lambda n, a: (
        f"<function={n}>\n"
        + parameters(a, "<parameter={}>", "</parameter>", "\n")
        + "</function>\n</tool_call>"
    ),
    "glm": lambda n, a: (
        f"<tool_call>{n}\n"
        + parameters(a, "<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>")
        + "</tool_call>"
    ),
    "anthropic": lambda n, a: f"<function_calls>\n{invoke(n, a)}\n</function_calls>",
    "with a name space": lambda n, a: invoke(n, a, "ns:"),
    "minimax": lambda n, a: f"<minimax:tool_call>\n{invoke(n, a)}\n</minimax:tool_call>",
    "cline": lambda n, a: (
        f"Let me see.\n<{n}>\n" + "".join(f"<{k}>{text(v)}</{k}>\n" for k, v in a.items()) + f"</{n}>"  # noqa: E501
    ),
    "pythonic": lambda n, a: f"[{n}({python(a)})]",
    "tool code": lambda n, a: f"I will.\n```tool_code\nprint(default_api.{n}({python(a)}))\n```",
    "lfm": lambda n, a: f"<|tool_call_start|>[{n}({python(a)})]<|tool_call_end|>",
    "gemma": gemma,
    "solar": lambda n, a: (
        f"<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>{n}<|tool_call:args|>{dump(a)}"
        "<|tool_call:end|><|calls|>"
    ),
    "qwen coder 2.5": lambda n, a: (
        f"<tools>\n{dump({'name': n, 'arguments': a})}\n</tools>"
    ),
    "openai": lambda n, a: dump(
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": n, "arguments": dump(a)}}]}  # noqa: E501
    ),
    "openai, one": lambda n, a: dump(
        {"id": "c", "type": "function", "function": {"name": n, "arguments": dump(a)}}
    ),
    "gemini": lambda n, a: dump({"functionCall": {"name": n, "args": a}}),
    "tool use": lambda n, a: dump({"type": "tool_use", "id": "t", "name": n, "input": a}),
    "langchain": lambda n, a: f"Action:\n```json\n{dump({'action': n, 'action_input': a})}\n```",
    "react": lambda n, a: f"Thought: do it\nAction: {n}\nAction Input: {dump(a)}\nObservation:",
    "react, python": lambda n, a: f"Thought: do it\nAction: {n}\nAction Input: {a!r}\n",
    "tao": lambda n, a: (
        f"THOUGHT [Reasoning]: do it\nACTION: {n}\n{tao_lines(a)}OBSERVATION"
    ),
    "tao, bold": lambda n, a: (
        f"**THOUGHT [Reasoning]:** do it\n**ACTION:** {n}\n{tao_lines(a, '- ')}**OBSERVATION:**"
    ),
    "tao, call": lambda n, a: f"THOUGHT: do it\nACTION: {n}({python(a)})\nOBSERVATION",
}  # fmt: skip
OPEN_ENDED = ("tao", "tao, bold")
"""Dialects whose arguments nothing but the end line closes."""
