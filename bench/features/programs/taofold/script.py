from taofold import Agent

agent = Agent("openai:gpt-5", skills=["skills"], approve="all", log="runs.db")

if __name__ == "__main__":
    print(agent.run_sync("Add 2 and 4 for the report for May.").output)
