from taofold import Agent

agent = Agent("openai:gpt-5", skills=["skills"], log="runs.db")

if __name__ == "__main__":
    print(agent.run_sync("Write the report for May.").output)
