"""In the environment of fastmcp-tasks: a server whose tools are tasks, for `test_tasks.py`.

Arguments: the port; a folder. `calls` in it gets a line for each start of a tool, `ended` one for
each end, `cancelled` one for each cancellation.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])

server: Any = FastMCP("tasks")
server.add_extension(TasksExtension(url="memory://"))


def noted(name: str, text: str) -> None:
    with (FOLDER / name).open("a") as lines:
        lines.write(f"{text}\n")


@server.tool(task=True)
async def work(seconds: float, text: str) -> dict[str, str]:
    """Work for a while."""
    noted("calls", text)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        noted("cancelled", text)
        raise
    noted("ended", text)
    return {"done": text}


@server.tool(task=True)
async def hold(text: str) -> dict[str, str]:
    """Work until the test creates the file `free`."""
    noted("calls", text)
    try:
        while not (FOLDER / "free").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        noted("cancelled", text)
        raise
    noted("ended", text)
    return {"done": text}


@server.tool(task=True)
async def fail(text: str) -> str:
    """Fail after a while."""
    await asyncio.sleep(0.1)
    raise ValueError(f"no luck with {text}")


@server.tool(task=True)
async def greet(context: Context) -> Any:
    """Ask for a name in the middle of the work."""
    answers = context.input_responses or {}
    if "who" in answers:
        noted("calls", "greeted")
        return f"hello {answers['who'].content['name']}"
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = ElicitRequestFormParams(message="who are you?", requested_schema=form)
    return InputRequiredResult(
        input_requests={"who": ElicitRequest(params=params)}, request_state="asked"
    )


@server.tool
def plain(text: str) -> str:
    """No task at all."""
    return text


server.run(transport="http", host="127.0.0.1", port=PORT, show_banner=False)
