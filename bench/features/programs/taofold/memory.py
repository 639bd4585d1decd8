from taofold import Agent, Principal

agent = Agent("openai:gpt-5", memory=True, log="runs.db")

if __name__ == "__main__":
    ada, bob = Principal("ada", roles=("USER",)), Principal("bob", roles=("USER",))
    print(agent.run_sync("Remember: I drink tea at four.", principal=ada).output)
    print(agent.run_sync("When do I drink tea?", principal=ada).output)
    print(agent.run_sync("When do I drink tea?", principal=bob).output)
