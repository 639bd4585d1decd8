import os

import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from taofold import Agent

agent = Agent("openai-chat:fake", base_url=os.environ["OPENAI_BASE_URL"])


async def ask(request):
    goal = (await request.body()).decode()
    return StreamingResponse(agent.stream(goal).text(), media_type="text/plain")


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])
uvicorn.run(app, port=int(os.environ["PORT"]), log_level="error")
