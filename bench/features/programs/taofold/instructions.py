from taofold import Agent

agent = Agent("openai:gpt-5", tools=["files"], project_instructions=True, log="runs.db")

if __name__ == "__main__":
    print(agent.run_sync("What does src/price.py define?").output)
