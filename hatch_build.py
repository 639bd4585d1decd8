"""The README as a package index shows it: there, links to files of the repository lead nowhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n+", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#)[^)]*\)")


def for_an_index(text: str) -> str:
    """The text without images and links that are files: their words stay."""
    return _LINK.sub(r"\1", _IMAGE.sub("", text))


class ReadmeHook(MetadataHookInterface):
    """Puts the README into the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}


def get_metadata_hook() -> type[MetadataHookInterface]:
    """What hatchling asks for."""
    return ReadmeHook
