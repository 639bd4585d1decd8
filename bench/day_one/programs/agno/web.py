import os

import uvicorn
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

agent = Agent(model=OpenAIChat(id="fake"))


async def pieces(goal):
    async for event in agent.arun(goal, stream=True):
        if event.event == "RunContent":
            yield event.content


async def ask(request):
    return StreamingResponse(pieces((await request.body()).decode()), media_type="text/plain")


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])
uvicorn.run(app, port=int(os.environ["PORT"]), log_level="error")
