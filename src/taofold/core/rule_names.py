"""The names of the loop's rules, as used in `violated` events and in the checklist.

Knows nothing about how a rule is judged (`rules`, `taofold.reasoning.demands`). Source: the AIWG
rules for Thought-Action-Observation loops.
"""

from typing import Final

NO_THOUGHT: Final = "R1"
NO_ACTION: Final = "R2"
INCOMPLETE: Final = "R3"
UNGROUNDED: Final = "R4"
UNTYPED: Final = "thought_type"
INTENT: Final = "unclear_intent"
REASON: Final = "missing_reason"
RATIONALE: Final = "missing_rationale"
EXTRACTION: Final = "missing_extraction"
STATUS: Final = "status"
VALUE: Final = "value"
REPEATED: Final = "repeat_same_action_unchanged"
EXCEPTION: Final = "exception"
RESEARCH: Final = "research_changes_state"

DEMANDS: Final = frozenset(
    {
        *(NO_THOUGHT, UNGROUNDED, UNTYPED, INTENT, REASON, RATIONALE),
        *(EXTRACTION, EXCEPTION, RESEARCH),
    }
)
"""Rules about the form of a reply. A strict run asks again for what they require, once per turn; a
lenient run accepts the reply.
"""
