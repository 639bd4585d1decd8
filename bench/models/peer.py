"""Agents of a peer against fake providers; run by the Python that has the peers installed.

    python peer.py PEER

Each line of the input is a job, `[FORMAT, URL, SCENARIO, PICTURE]` as JSON (the picture base64);
each line of the output what came of it. The agent is what the peer's own documentation shows.
"""

import asyncio
import base64
import json
import sys
from typing import Any

MODELS = {
    "responses": "gpt-6.1-sol",
    "messages": "claude-opus-5-5",
    "gemini": "gemini-3.7-flash",
    "deepseek": "deepseek-v4",
}
PATIENCE = 240.0
"""Seconds for one job on a busy machine."""
INSTRUCTIONS = "Be brief."
GOAL = "Add them up."


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- pydantic-ai ---------------------------------------------------------------------------------


async def pydantic_ai(form: str, url: str, scenario: str, picture: bytes) -> str:
    from pydantic import BaseModel
    from pydantic_ai import Agent, BinaryContent

    class Sum(BaseModel):
        total: int

    agent: Any = Agent(
        _pydantic_model(form, url),
        instructions=INSTRUCTIONS,
        tools=[add],
        output_type=Sum if scenario == "typed" else str,
    )

    @agent.tool_plain
    def chart(day: int) -> BinaryContent:
        """A chart."""
        return BinaryContent(picture, media_type="image/png")

    shown = [GOAL, BinaryContent(picture, media_type="image/png")]
    goal: Any = shown if scenario == "image" else GOAL
    if scenario == "cut":
        async with agent.run_stream(goal) as answer:
            return str(await answer.get_output())
    return str((await agent.run(goal)).output)


def _pydantic_model(form: str, url: str) -> Any:
    name = MODELS[form]
    match form:
        case "responses":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider: Any = OpenAIProvider(base_url=f"{url}/v1", api_key="k")
            return OpenAIResponsesModel(name, provider=provider)
        case "messages":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key="k"))
        case "gemini":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(name, provider=GoogleProvider(base_url=url, api_key="k"))
        case _:
            from openai import AsyncOpenAI
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.deepseek import DeepSeekProvider

            client = AsyncOpenAI(base_url=f"{url}/deepseek-reasoning", api_key="k")
            return OpenAIChatModel(name, provider=DeepSeekProvider(openai_client=client))


# --- openai-agents -------------------------------------------------------------------------------


async def openai_agents(form: str, url: str, scenario: str, picture: bytes) -> str:
    from agents import Agent, ModelSettings, Runner, function_tool, set_tracing_disabled
    from agents.tool import ToolOutputImage
    from pydantic import BaseModel

    class Sum(BaseModel):
        total: int

    def chart(day: int) -> ToolOutputImage:
        """A chart."""
        return ToolOutputImage(image_url=data_url(picture))

    set_tracing_disabled(True)
    if form == "responses":
        from agents import OpenAIResponsesModel
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k")
        model: Any = OpenAIResponsesModel(MODELS[form], client)
    else:
        from agents.extensions.models.litellm_model import LitellmModel

        name, base = _litellm(form, url)
        model = LitellmModel(name, base_url=base, api_key="k")
    agent: Any = Agent(
        name="adder",
        instructions=INSTRUCTIONS,
        model=model,
        model_settings=ModelSettings(store=False, response_include=["reasoning.encrypted_content"]),
        tools=[function_tool(add), function_tool(chart)],
        output_type=Sum if scenario == "typed" else None,
    )
    goal: Any = GOAL
    if scenario == "image":
        content = [
            {"type": "input_text", "text": GOAL},
            {"type": "input_image", "image_url": data_url(picture), "detail": "auto"},
        ]
        goal = [{"role": "user", "content": content}]
    if scenario == "cut":
        stream = Runner.run_streamed(agent, goal)
        async for _ in stream.stream_events():
            pass
        return str(stream.final_output)
    return str((await Runner.run(agent, goal)).final_output)


# --- litellm -------------------------------------------------------------------------------------


def _litellm(form: str, url: str) -> tuple[str, str]:
    return {
        "responses": (f"openai/responses/{MODELS[form]}", f"{url}/v1"),
        "messages": (f"anthropic/{MODELS[form]}", url),
        "gemini": (f"gemini/{MODELS[form]}", f"{url}/v1beta"),
        "deepseek": (f"deepseek/{MODELS[form]}", f"{url}/deepseek-reasoning"),
    }[form]


async def litellm(form: str, url: str, scenario: str, picture: bytes) -> str:
    import litellm as library

    name, base = _litellm(form, url)
    image = {"type": "image_url", "image_url": {"url": data_url(picture)}}
    numbers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    messages: list[Any] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": [{"type": "text", "text": GOAL}, image]
         if scenario == "image" else GOAL},
    ]  # fmt: skip
    options: dict[str, Any] = {}
    if scenario == "typed":
        schema = {
            "type": "object", "properties": {"total": {"type": "integer"}},
            "required": ["total"], "additionalProperties": False,
        }  # fmt: skip
        shape = {"name": "sum", "schema": schema, "strict": True}
        options["response_format"] = {"type": "json_schema", "json_schema": shape}
    tools = [
        tool("add", numbers),
        tool("chart", {"day": {"type": "integer"}}),
    ]
    for _ in range(8):
        answer: Any = await library.acompletion(
            model=name, api_base=base, api_key="k", messages=messages, tools=tools,
            num_retries=2, stream=scenario == "cut", **options,
        )  # fmt: skip
        if scenario == "cut":
            answer = library.stream_chunk_builder([chunk async for chunk in answer])
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return str(said.content)
        for call in said.tool_calls:
            given = json.loads(call.function.arguments)
            result: Any = [image] if call.function.name == "chart" else str(add(**given))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "no end"


def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object", "properties": properties, "required": list(properties),
        "additionalProperties": False,
    }  # fmt: skip
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def data_url(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


PEERS: Any = {"pydantic-ai": pydantic_ai, "openai-agents": openai_agents, "litellm": litellm}


def main() -> None:
    for line in sys.stdin:
        form, url, scenario, picture = json.loads(line)
        work = PEERS[sys.argv[1]](form, url, scenario, base64.b64decode(picture))
        try:
            said = f"GAVE {asyncio.run(asyncio.wait_for(work, PATIENCE))}"
        except BaseException as error:
            said = f"FAILED {type(error).__name__}: {error}"
        print(" ".join(said.split())[:300], flush=True)


if __name__ == "__main__":
    main()
