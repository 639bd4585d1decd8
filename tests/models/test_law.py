"""The fakes' rules for parameters and pairs refuse what the providers refuse, and nothing else.

Each row is a lawful request and one change that its provider answers with a 400.
"""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from tests.models import law

FUNCTION = {"name": "add", "parameters": {"type": "object", "properties": {}}}
CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "3"}
USER = {"role": "user", "content": "hi"}
USE = {"type": "tool_use", "id": "c1", "name": "add", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "3"}
SIGNED = {"functionCall": {"name": "add", "args": {}}, "thoughtSignature": "c2lnbmVk"}
ASKED = {"parts": [SIGNED], "role": "model"}
UNSIGNED = {"parts": [{"functionCall": SIGNED["functionCall"]}], "role": "model"}
BMP = {"type": "base64", "media_type": "image/bmp", "data": "AA=="}


def seen(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [part]}]


ANSWERED = {"parts": [{"functionResponse": {"name": "add", "response": {}}}], "role": "user"}
LAWFUL: Mapping[str, dict[str, Any]] = {
    "responses": {
        "model": "gpt-6.1-sol",
        "tools": [{"type": "function", "strict": False, **FUNCTION}],
        "input": [USER, CALL, OUTPUT],
        "reasoning": {"effort": "high"},
    },
    "chat": {
        "model": "gpt-5.6-sol",
        "tools": [{"type": "function", "function": FUNCTION}],
        "messages": [
            USER,
            {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "add"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
        ],
    },
    "messages": {
        "model": "claude-opus-5-5",
        "max_tokens": 9,
        "tools": [{"name": "add", "input_schema": FUNCTION["parameters"]}],
        "messages": [
            USER,
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [RESULT]},
        ],
    },
    "gemini": {
        "tools": [
            {"functionDeclarations": [{"name": "add", "parametersJsonSchema": {"type": "object"}}]}
        ],
        "contents": [{"parts": [{"text": "hi"}], "role": "user"}, ASKED, ANSWERED],
    },
}
TURN = {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}
MARK = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("responses", {"temperature": 0.2}),
    ("responses", {"top_p": 0.9}),
    ("responses", {"reasoning": {"effort": "none"}}),
    ("responses", {"reasoning": {"effort": "minimal"}}),
    ("responses", {"model": "gpt-4o"}),
    ("responses", {"tool_choice": {"type": "function", "name": "sub"}}),
    ("responses", {"tools": [], "tool_choice": "required"}),
    ("responses", {"input": [USER, CALL]}),
    ("responses", {"input": [USER, OUTPUT]}),
    ("chat", {"max_tokens": 9}),
    ("chat", {"temperature": 0.2}),
    ("chat", {"messages": LAWFUL["chat"]["messages"][:2]}),
    ("chat", {"messages": [USER, LAWFUL["chat"]["messages"][2]]}),
    ("messages", {"temperature": 0.2}),
    ("messages", {"model": "claude-sonnet-4-5", "temperature": 0.2, "top_p": 0.9}),
    ("messages", {"thinking": {"type": "enabled", "budget_tokens": 5}}),
    ("messages", {"model": "claude-sonnet-4-5",
                  "thinking": {"type": "enabled", "budget_tokens": 9}}),
    ("messages", {"thinking": {"type": "disabled"}}),
    ("messages", {"tool_choice": {"type": "any"}}),
    ("messages", {"messages": [USER, TURN]}),
    ("messages", {"messages": [*LAWFUL["messages"]["messages"][:2], USER]}),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}),
    ("messages", {"messages": [{"role": "user", "content": [MARK] * 5}]}),
    ("gemini", {"generationConfig": {
        "thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 5}}}),
    ("gemini", {"generationConfig": {"responseJsonSchema": {}}}),
    ("gemini", {"toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["sub"]}}}),
    ("gemini", {"toolConfig": {
        "functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["add"]}}}),
    ("gemini", {"contents": LAWFUL["gemini"]["contents"][:2]}),
    ("gemini", {"contents": [LAWFUL["gemini"]["contents"][0], UNSIGNED, ANSWERED]}),
    ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "xhigh"}}}),
    ("gemini", {"contents": [
        {"parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}], "role": "user"}]}),
    ("responses", {"input": seen(type="input_image", image_url="data:image/bmp;base64,AA==")}),
    ("responses", {"input": seen(type="input_image", image_url={"url": "https://x.org/a.png"})}),
    ("chat", {"messages": seen(type="image_url", image_url={"url": "/tmp/a.png"})}),
    ("messages", {"messages": seen(type="image", source=BMP)}),
    ("messages", {"messages": [
        USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}, USER]}),
    ("messages", {"messages": [
        USER,
        {"role": "assistant",
         "content": [TURN["content"][0], {"type": "thinking", "thinking": "x", "signature": "s"}]},
        USER]}),
    ("gemini", {"contents": [{"parts": [], "role": "user"}]}),
    ("gemini", {"contents": [LAWFUL["gemini"]["contents"][0], ANSWERED]}),
]  # fmt: skip


@pytest.mark.parametrize("kind", LAWFUL)
def test_a_lawful_request_is_taken(kind: str) -> None:
    law.LAWS[kind](LAWFUL[kind])


@pytest.mark.parametrize(("kind", "change"), CHANGES, ids=str)
def test_each_change_is_refused(kind: str, change: dict[str, Any]) -> None:
    with pytest.raises(law.Unlawful):
        law.LAWS[kind](copy.deepcopy(LAWFUL[kind]) | change)
