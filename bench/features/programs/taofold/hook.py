from taofold import Agent, ChangeRequest, Hook, ReplaceArguments, tool


@tool(effect="read")
def search(query: str, limit: int = 100) -> str:
    """Search the web."""
    return f"{limit} pages about {query}"


class Frugal(Hook):
    def before_model(self, context, request):
        return ChangeRequest(settings={"max_tokens": 500})

    def before_tool(self, context, action):
        if action.tool == "search":
            return ReplaceArguments({**action.parameters, "limit": 10})
        return None


agent = Agent("openai:gpt-5", tools=[search], hooks=[Frugal()], log="runs.db")

if __name__ == "__main__":
    print(agent.run_sync("Find apples.").output)
