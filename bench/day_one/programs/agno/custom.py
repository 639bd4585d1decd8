from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse


class Backwards(Model):
    def invoke(self, messages, **kwargs):
        return ModelResponse(role="assistant", content=messages[-1].content[::-1])

    async def ainvoke(self, messages, **kwargs):
        return self.invoke(messages)

    def invoke_stream(self, messages, **kwargs):
        yield self.invoke(messages)

    async def ainvoke_stream(self, messages, **kwargs):
        yield self.invoke(messages)

    def _parse_provider_response(self, response, **kwargs):
        return response

    def _parse_provider_response_delta(self, response):
        return response


print(Agent(model=Backwards(id="backwards")).run("olleh").content)
