"""Agent Skills (agentskills.io): instructions in folders that a model loads when a task needs them.

`skill` reads one folder, `sources` finds folders and checks their trust, `offer` makes the tools by
which a model loads a skill, reads its files and runs its scripts. Knows nothing about agents.
"""

from taofold.skills.offer import skill_tools
from taofold.skills.skill import Skill, SkillFault, read_skill
from taofold.skills.sources import SkillWarning, find_skills

__all__ = ["Skill", "SkillFault", "SkillWarning", "find_skills", "read_skill", "skill_tools"]
