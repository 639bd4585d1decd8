import os

import uvicorn
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

agent = create_agent(ChatOpenAI(model="fake"), [])


async def pieces(goal):
    messages = {"messages": [{"role": "user", "content": goal}]}
    async for piece, _ in agent.astream(messages, stream_mode="messages"):
        yield piece.content


async def ask(request):
    return StreamingResponse(pieces((await request.body()).decode()), media_type="text/plain")


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])
uvicorn.run(app, port=int(os.environ["PORT"]), log_level="error")
