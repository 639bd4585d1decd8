"""From what was read to what is proposed: an action carries every repair that it rests on (D7).

Knows nothing about tools, nor which of them may run on repaired parameters.
"""

from taofold.core.values import Action
from taofold.parsing import Call, Repair


def to_action(call: Call, whole: tuple[Repair, ...] = ()) -> Action:
    """The call as an action; its repairs come along (D7).

    `whole` is what was changed to read the reply: what may have changed a call changed each.
    """
    repairs = (*call.repairs, *[repair for repair in whole if repair.content])
    return Action(
        call.tool,
        call.parameters,
        call.rationale,
        call.id,
        tuple(dict.fromkeys([repair.kind for repair in repairs])),
        any([repair.content for repair in repairs]),
        call.error,
    )
