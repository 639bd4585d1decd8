from taofold import Agent
from taofold.core.values import Profile, Reply


class Backwards:
    name = "backwards:1"
    profile = Profile()

    async def complete(self, request, on_text=None):
        return Reply(request.conversation[-1].text.splitlines()[0][::-1], model=self.name)

    def price(self, input_tokens, output_tokens):
        return 0.0


print(Agent(Backwards(), strategy="direct").run_sync("olleh").output)
