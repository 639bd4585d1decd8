"""Draws docs/trace.svg: a real run of the demo, as a terminal shows it. Run me with python."""

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from taofold import Agent, Limits, Policy
from taofold.cli.render.rich_voice import RichVoice
from taofold.cli.render.story import Story
from taofold.tools.command import command_tool
from taofold.tools.files import file_tools
from taofold_repair.demo import GOAL, demo_project

SHOWN = 34
"""Lines of the picture: the beginning of the run and its end."""


class Still(RichVoice):
    """The trace without the line that moves."""

    def busy(self, doing: str) -> None:
        """Say nothing."""


def main() -> None:
    """Run the demo and write the picture."""
    record = Console(
        record=True, width=118, file=io.StringIO(), force_terminal=True, highlight=False
    )
    with tempfile.TemporaryDirectory() as folder:
        root = demo_project(Path(folder) / "storeroom")
        agent = Agent(
            "offline:repair",
            name="repair",
            tools=[file_tools(root), command_tool(root)],
            policy=Policy(autonomy="autonomous"),
            limits=Limits(steps=60),
            approve="all",
            strict=True,
        )
        agent.run_sync(GOAL, run_id="demo", listener=Story(Still(record), "demo"))
    lines = record.export_text(styles=True, clear=True).splitlines()
    head, tail = lines[: SHOWN - 8], lines[-7:]
    picture = Console(record=True, width=118, file=io.StringIO(), force_terminal=True)

    picture.print(Text("$ make demo", style="bold"))
    for line in [*head, "    …", *tail]:
        picture.print(Text.from_ansi(line, no_wrap=True), crop=True)
    target = Path(__file__).with_name("trace.svg")
    svg = picture.export_svg(title="taofold")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing from a network
    target.write_text(svg.replace("Fira Code,", ""), encoding="utf-8")


if __name__ == "__main__":
    main()
