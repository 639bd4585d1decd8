"""Runs a program of pydantic-ai with scripted replies instead of OpenAI's."""

import json
import sys
from pathlib import Path

from pydantic_ai import models
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

program, replies = Path(sys.argv[1]), iter(json.loads(sys.argv[2]))
infer_model = models.infer_model


def answer(messages: list, info: AgentInfo) -> ModelResponse:
    reply = next(replies)
    if "text" in reply:
        return ModelResponse(parts=[TextPart(reply["text"])])
    return ModelResponse(parts=[ToolCallPart(reply["tool"], reply["parameters"])])


def scripted(model, *arguments, **options):
    if model == "openai:gpt-5":
        return FunctionModel(answer)
    return infer_model(model, *arguments, **options)


models.infer_model = scripted
exec(compile(program.read_text("utf-8"), program.name, "exec"), {"__name__": "__main__"})
