import os

import uvicorn
from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

agent = Agent("agent", model=OpenAIChatCompletionsModel("fake", AsyncOpenAI()))


async def pieces(goal):
    async for event in Runner.run_streamed(agent, goal).stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield event.data.delta


async def ask(request):
    return StreamingResponse(pieces((await request.body()).decode()), media_type="text/plain")


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])
uvicorn.run(app, port=int(os.environ["PORT"]), log_level="error")
