"""Skills that tests write themselves."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

FRONT = "name: {name}\ndescription: Writes reports. Use it for monthly figures.\n"

WriteSkill = Callable[..., Path]


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Returns a function that writes a skill and returns its folder."""

    def write(
        name: str = "reports",
        front: str = FRONT,
        body: str = "# Reports\n\nAdd the figures of each month.\n",
        files: Mapping[str, str | bytes] | None = None,
        *,
        below: Path | str = "skills",
    ) -> Path:
        folder = tmp_path / below / name
        folder.mkdir(parents=True)
        text = f"---\n{front.replace('{name}', name)}---\n\n{body}"
        for path, content in {"SKILL.md": text, **(files or {})}.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write
