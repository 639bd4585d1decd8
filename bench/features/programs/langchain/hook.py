from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware


def search(query: str, limit: int = 100) -> str:
    """Search the web."""
    return f"{limit} pages about {query}"


class Frugal(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        settings = {**request.model_settings, "max_completion_tokens": 500}
        return handler(request.override(model_settings=settings))

    def wrap_tool_call(self, request, handler):
        call = request.tool_call
        if call["name"] == "search":
            call = {**call, "args": {**call["args"], "limit": 10}}
        return handler(request.override(tool_call=call))


agent = create_agent("openai:gpt-5", tools=[search], middleware=[Frugal()])
goal = {"role": "user", "content": "Find apples."}
print(agent.invoke({"messages": [goal]})["messages"][-1].text)
