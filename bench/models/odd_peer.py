"""The peers of `odd.py`; run by the Python that has them installed.

    python odd_peer.py PEER

Each line of the input is a job as JSON, each line of the output that begins with `> ` what came of
it: the arguments of the calls and the answer. The agents are what the peers' documentation shows.
"""

import asyncio
import json
import os
import sys
from typing import Any

GOAL = "Add 1 and 2."
PATIENCE = 240.0
"""Seconds for one job."""


async def pydantic_ai(job: dict[str, Any], calls: list[Any]) -> str:
    from pydantic_ai import Agent, Tool

    async def called(**arguments: Any) -> str:
        calls.append(arguments)
        return "3"

    tools = [
        Tool.from_schema(called, name=name, description="A tool.", json_schema=schema)
        for name, schema in job["tools"]
    ]
    agent: Any = Agent(
        _model(job),
        tools=tools,
        output_type=list[int] if job["output"] else str,
        model_settings=job["settings"],
    )
    return str((await agent.run(GOAL)).output)


def _model(job: dict[str, Any]) -> Any:
    name, url = job["model"], job["url"]
    if job["format"] == "messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key="k"))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="k")
    make: Any = OpenAIResponsesModel if job["format"] == "responses" else OpenAIChatModel
    return make(name, provider=provider)


async def litellm(job: dict[str, Any], calls: list[Any]) -> str:
    import litellm as library

    prefix = {"responses": "openai/responses", "chat": "openai", "messages": "anthropic"}
    base = job["url"] + ("" if job["format"] == "messages" else "/v1")
    tools = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}
        for name, schema in job["tools"]
    ]
    messages: list[Any] = [{"role": "user", "content": GOAL}]
    options: dict[str, Any] = dict(job["settings"])
    if job["output"]:
        schema = {"type": "array", "items": {"type": "integer"}}
        shape = {"name": "answer", "schema": schema, "strict": True}
        options["response_format"] = {"type": "json_schema", "json_schema": shape}
    for _ in range(6):
        answer: Any = await library.acompletion(
            model=f"{prefix[job['format']]}/{job['model']}", api_base=base, api_key="k",
            messages=messages, tools=tools, num_retries=0, **options,
        )  # fmt: skip
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return str(said.content)
        for call in said.tool_calls:
            calls.append(json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "3"})
    return "no end"


PEERS: Any = {"pydantic-ai": pydantic_ai, "litellm": litellm}


async def one(job: dict[str, Any]) -> str:
    calls: list[Any] = []
    try:
        said = await asyncio.wait_for(PEERS[sys.argv[1]](job, calls), PATIENCE)
    except BaseException as error:
        said = f"FAILED {type(error).__name__}: {error}"
    return " ".join(f"{json.dumps(calls)} {said}".split())[:4000]


def main() -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    for line in sys.stdin:
        print(f"> {asyncio.run(one(json.loads(line)))}", flush=True)


if __name__ == "__main__":
    main()
