"""How a drive ends other than by an answer. Not errors: `run` turns them into events."""


class Park(BaseException):
    """The run must wait: `reason` is awaiting_approval or awaiting_input."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Cancelled(BaseException):
    """A person cancelled the run through its inbox."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class Denied(BaseException):
    """An action was denied and the agent says `on_denial="stop"`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EndOfTape(BaseException):
    """An exact replay came to the end of what was recorded."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key
