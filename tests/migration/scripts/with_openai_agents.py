"""Runs a program of the OpenAI Agents SDK with scripted replies instead of OpenAI's."""

import json
import sys
from pathlib import Path

from agents import Model, ModelResponse, MultiProvider, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

program, replies = Path(sys.argv[1]), enumerate(json.loads(sys.argv[2]))


class Scripted(Model):
    async def get_response(self, *arguments, **options):
        number, reply = next(replies)
        if "text" in reply:
            text = ResponseOutputText(text=reply["text"], type="output_text", annotations=[])
            item = ResponseOutputMessage(
                id=f"m{number}",
                type="message",
                role="assistant",
                status="completed",
                content=[text],
            )
        else:
            item = ResponseFunctionToolCall(
                id=f"c{number}", call_id=f"c{number}", type="function_call",
                name=reply["tool"], arguments=json.dumps(reply["parameters"]),
            )  # fmt: skip
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **options):
        raise NotImplementedError


MultiProvider.get_model = lambda provider, name: Scripted()
set_tracing_disabled(True)
exec(compile(program.read_text("utf-8"), program.name, "exec"), {"__name__": "__main__"})
