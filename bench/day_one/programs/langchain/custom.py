from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Backwards(BaseChatModel):
    @property
    def _llm_type(self):
        return "backwards"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        message = AIMessage(messages[-1].content[::-1])
        return ChatResult(generations=[ChatGeneration(message=message)])


goal = {"messages": [{"role": "user", "content": "olleh"}]}
print(create_agent(Backwards(), []).invoke(goal)["messages"][-1].content)
