"""The JSON of requests: what they may say.

They refuse what they do not know: roles, principals and history cannot be smuggled in.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, StringConstraints, field_validator, model_validator

from taofold.server.endpoint import RUN_ID, Shape

LONGEST_GOAL = 20_000
MOST_FILES = 20
"""Files with one message."""
_Text = Annotated[str, StringConstraints(max_length=LONGEST_GOAL)]
_Name = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
_RunId = Annotated[str, StringConstraints(pattern=rf"^({RUN_ID})?$")]


def _writable(text: str) -> str:
    """JSON can say half a character; a log cannot keep it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text is not valid Unicode") from None
    return text


class Attached(Shape):
    """An image, a document or sound: its bytes, or where the model's provider may fetch it."""

    data: str = Field("", description="The bytes, base64.")
    url: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "", description="An https:// address, instead of the bytes. The server does not open it."
    )
    name: _Name = Field("", description="What people and models call it.")

    @model_validator(mode="after")
    def _one(self) -> "Attached":
        if bool(self.data) == bool(self.url):
            raise ValueError("give data or url, one of them")
        return self


class NewRun(Shape):
    """A run to be started."""

    goal: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GOAL)] = Field(
        description="What the agent should do."
    )
    agent: _Name = Field("", description="Name of an agent of GET /agents; empty: the first.")
    session: _Name = Field("", description="The conversation it belongs to.")
    ui_context: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "",
        validation_alias=AliasChoices("ui_context", "uiContext"),
        description="What the user looks at. The agent gets it as data, in front of the goal.",
    )
    data: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="What the run's state begins with."
    )
    on_disconnect: Literal["continue", "cancel"] = Field(
        "continue", description="What becomes of the run when its stream is left for 5 seconds."
    )
    on_busy: Literal["refuse", "wait"] = Field(
        "refuse", description="If the session has a run that has not ended: 409, or wait for it."
    )
    attachments: list[Attached] = Field(
        default_factory=list[Attached],
        max_length=MOST_FILES,
        description="What the model is shown besides the goal, in this order.",
    )

    @field_validator("goal", "session", "ui_context", "agent")
    @classmethod
    def _valid(cls, text: str) -> str:
        return _writable(text)

    @field_validator("goal")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the goal is empty")
        return text


class Steer(Shape):
    """A message for a run that goes on."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GOAL)]
    message_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{0,100}$")] = ""

    _valid = field_validator("text")(_writable)


class Fork(Shape):
    """Where to branch off."""

    at: Annotated[int, Field(ge=0, le=0xFFFFFFFF)] | None = Field(
        None, description="Event number; the last complete step at or before it counts."
    )


class Decide(Shape):
    """A person's word on an action that waits."""

    decision: Literal["approve", "deny", "edit", "answer", "done"]
    parameters: dict[str, Any] | None = Field(None, description="For `edit`: run it with these.")
    answer: _Text | None = Field(None, description="For `answer`: to the agent's question.")
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""
    digest: Annotated[str, StringConstraints(max_length=64)] = Field(
        "", description="Of what the person was shown: another action is then refused."
    )

    @field_validator("answer", "reason", "digest")
    @classmethod
    def _valid(cls, text: str | None) -> str | None:
        return text if text is None else _writable(text)


class Login(Shape):
    """A token, in exchange for a cookie."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class RunsQuery(Shape):
    """Which runs."""

    status: Literal["", "running", "waiting", "finished", "limited", "failed", "cancelled"] = ""
    session: _Name = ""
    agent: _Name = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: _RunId = Field("", description="`next` of the page before.")


class RecordsQuery(Shape):
    """Which records."""

    after: Annotated[int, Field(ge=-1, le=0xFFFFFFFF)] = -1
    limit: Annotated[int, Field(ge=1, le=2000)] = 500


class StateQuery(Shape):
    """Which moment."""

    at: Annotated[int, Field(ge=0, le=0xFFFFFFFF)] | None = None


class EventsQuery(Shape):
    """Where a stream begins. A `Last-Event-ID` header comes before `after`."""

    after: Annotated[str, StringConstraints(max_length=4096)] = ""
    on_disconnect: Literal["continue", "cancel"] = "continue"


class ApprovalsQuery(Shape):
    """Whose approvals."""

    run: _RunId = ""


class LoopsQuery(Shape):
    """How many loops."""

    limit: Annotated[int, Field(ge=1, le=500)] = 100


class PatternsQuery(Shape):
    """Which patterns; `retired` left out: both."""

    kind: Literal["", "error", "success", "anti", "template"] = ""
    retired: bool | None = None
