from taofold import Agent, Budget, Policy, Principal

policy = Policy(budgets=[Budget(per="principal", period="day", usd=1)])
agent = Agent("openai:gpt-5", policy=policy, log="runs.db")

if __name__ == "__main__":
    for user in ("ada", "ada", "bob"):
        result = agent.run_sync("Say hello.", principal=Principal(user, roles=("USER",)))
        print(user, result.output if result.success else result.error)
