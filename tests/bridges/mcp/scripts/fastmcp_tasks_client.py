"""In the environment of fastmcp-tasks: its client of our server.

python fastmcp_tasks_client.py URL TOKEN

For each line `[what, name or id, arguments]` that it reads it writes one: `call` gives the result,
without a sign of the task; `start` the id of the task, `seen` its state, `settle` its
result, `cancel` null. Its user approves everything.
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp_tasks.client import ToolTask, call_tool_task
from fastmcp_tasks.client_models import ClientCreateTaskResult

URL, TOKEN = sys.argv[1:]


async def approve(message: str, *_: Any) -> Any:
    return {"approve": True}


def handle(client: Client, task: str) -> ToolTask:
    created = ClientCreateTaskResult(
        resultType="task", taskId=task, status="working", createdAt="", lastUpdatedAt=""
    )
    return ToolTask(client, "any", created, raise_on_error=False)


def told(result: Any) -> Any:
    return {
        "error": result.is_error,
        "text": "".join(block.text for block in result.content),
        "structured": result.structured_content,
    }


async def main() -> None:
    transport = StreamableHttpTransport(URL, headers={"Authorization": f"Bearer {TOKEN}"})
    async with Client(transport, elicitation_handler=approve) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, name, arguments = json.loads(line)
            match what:
                case "call":
                    value = told(await client.call_tool(name, arguments, raise_on_error=False))
                case "start":
                    value = (await call_tool_task(client, name, arguments)).task_id
                case "seen":
                    value = (await handle(client, name).status()).model_dump()
                case "settle":
                    value = told(await handle(client, name).result())
                case _:
                    value = await handle(client, name).cancel()
            print(json.dumps(value), flush=True)


asyncio.run(main())
