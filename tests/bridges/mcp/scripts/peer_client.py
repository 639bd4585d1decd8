"""In the environment `mcp-clients`: another framework's client of our server.

python peer_client.py pydantic-ai|openai-agents URL TOKEN

Writes the names of the tools as a line of JSON; then for each line `[name, arguments]` that it
reads one with what the framework made of the call: `{"error": …, "text": …, "structured": …}`.
"""

import asyncio
import json
import sys
from typing import Any

KIND, URL, TOKEN = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def put(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def lines() -> Any:
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)


async def pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    toolset = MCPToolset(URL, headers=HEADERS, tool_error_behavior="failed")
    async with toolset:
        put([one.name for one in await toolset.list_tools()])
        async for name, arguments in lines():

            def model(messages: Any, _: Any, call: Any = (name, arguments)) -> Any:
                last = messages[-1].parts[-1]
                if isinstance(last, ToolReturnPart):
                    failed = last.outcome != "success"
                    put({"error": failed, "text": last.model_response_str(),
                         "structured": None if failed else last.content})  # fmt: skip
                    return ModelResponse([TextPart("done")])
                return ModelResponse([ToolCallPart(*call)])

            await Agent(FunctionModel(model), toolsets=[toolset]).run("go")


async def openai_agents() -> None:
    from agents.mcp import MCPServerStreamableHttp, MCPUtil

    params: Any = {"url": URL, "headers": HEADERS}
    async with MCPServerStreamableHttp(params, client_session_timeout_seconds=60) as server:
        made = await MCPUtil.get_function_tools(server, True, None, None)
        put([one.name for one in made])
        async for name, arguments in lines():
            result: Any = await server.call_tool(name, arguments)
            put({"error": result.isError if hasattr(result, "isError") else result.is_error,
                 "text": "".join(block.text for block in result.content),
                 "structured": getattr(result, "structured_content", None)
                 or getattr(result, "structuredContent", None)})  # fmt: skip


asyncio.run({"pydantic-ai": pydantic_ai, "openai-agents": openai_agents}[KIND]())
