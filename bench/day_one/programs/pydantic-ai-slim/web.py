import os

import uvicorn
from pydantic_ai import Agent
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

agent = Agent("openai-chat:fake")


async def pieces(goal):
    async with agent.run_stream(goal) as result:
        async for text in result.stream_text(delta=True):
            yield text


async def ask(request):
    return StreamingResponse(pieces((await request.body()).decode()), media_type="text/plain")


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])
uvicorn.run(app, port=int(os.environ["PORT"]), log_level="error")
