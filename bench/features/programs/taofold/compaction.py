from taofold import Agent, tool


@tool(effect="read")
def page(number: int) -> str:
    """Read a page of the diary."""
    return f"Page {number}. " + "The sea was calm, and the crew mended the nets. " * 100


agent = Agent("openai:gpt-4", tools=[page], compaction="summary", log="runs.db")

if __name__ == "__main__":
    print(agent.run_sync("Which page names a harbour?").output)
