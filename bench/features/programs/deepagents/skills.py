from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend

backend = FilesystemBackend(root_dir=".", virtual_mode=True)
agent = create_deep_agent("openai:gpt-5", backend=backend, skills=["/skills/"])
goal = {"role": "user", "content": "Write the report for May."}
print(agent.invoke({"messages": [goal]})["messages"][-1].text)
