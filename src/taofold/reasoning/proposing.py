"""From what was read to what is proposed: an action carries every repair that it rests on (D7).

Knows nothing about tools, nor which of them may run on repaired parameters.
"""

from taofold.core.values import Action
from taofold.parsing import Call, Repair


def to_action(call: Call, whole: tuple[Repair, ...] = ()) -> Action:
    """The call as an action; its repairs come along (D7).

    `whole` is what was changed to read the reply: what may have changed a call changed each.
    """
    kinds: dict[str, None] = {}
    guessed = False
    for repair in call.repairs:
        kinds[repair.kind] = None
        guessed = guessed or repair.content
    for repair in whole:
        if repair.content:
            kinds[repair.kind] = None
            guessed = True
    return Action(
        call.tool, call.parameters, call.rationale, call.id, tuple(kinds), guessed, call.error
    )
