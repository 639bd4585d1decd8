from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend

backend = FilesystemBackend(root_dir=".", virtual_mode=True)
agent = create_deep_agent("openai:gpt-5", backend=backend, memory=["/AGENTS.md"])
goal = {"role": "user", "content": "What does src/price.py define?"}
print(agent.invoke({"messages": [goal]})["messages"][-1].text)
