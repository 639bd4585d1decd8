from agents import Agent, Model, ModelResponse, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class Backwards(Model):
    async def get_response(self, system_instructions, input, *_, **__):
        goal = input if isinstance(input, str) else input[-1]["content"]
        text = ResponseOutputText(annotations=[], text=goal[::-1], type="output_text")
        message = ResponseOutputMessage(
            id="1", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


print(Runner.run_sync(Agent("agent", model=Backwards()), "olleh").final_output)
