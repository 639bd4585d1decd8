"""One skill: a folder with a `SKILL.md`, read whole and checked against the specification.

A `SKILL.md` has YAML between two lines `---` (name, description …) and instructions in Markdown.
Source of the rules: https://agentskills.io/specification. Faults that make a skill unusable refuse
it; others (an unknown key, a name unlike its folder) are kept in `Skill.faults`, because skills
written for other programs have them. The digests of the files are those of the moment of reading.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.text import near, visible_line
from taofold.log.formats import yaml_document as yaml
from taofold.reserved_places import open_file

SKILL_FILE: Final = "SKILL.md"
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1024
LONGEST_COMPATIBILITY: Final = 500
MOST_CHARS: Final = 100_000
"""Maximum characters of a `SKILL.md`. The specification recommends fewer than 5,000 tokens."""
MOST_FILES: Final = 2_000
MOST_BYTES: Final = 100_000_000
"""Maximum bytes of all files of a skill."""
KEYS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": ("python",),
    ".sh": ("bash",),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
}
"""The program that runs a script, by the end of its name."""
_SKIPPED: Final = frozenset({".git", "__pycache__", "node_modules", ".venv"})
_MARK: Final = "---"
# A value with an unquoted ": " is not YAML, but other programs read it as text.
_UNQUOTED: Final = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(?![\"'|>\[{&*!])(.*:(?:[ \t].*)?)$")


@dataclass(frozen=True, slots=True)
class SkillFault:
    """One breach of the specification.

    Args:
        path: The file, or the folder of the skill.
        message: The fault and, where it is known, the repair.
        line: Line in the file, from 1. 0 is unknown.
        fatal: The skill cannot be used.
    """

    path: Path
    message: str
    line: int = 0
    fatal: bool = True

    def __str__(self) -> str:
        where = visible_line(str(self.path))
        return f"{where}:{self.line}: {self.message}" if self.line else f"{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it was read from its folder.

    Example:
        ```python
        from taofold.skills import read_skill

        skill = read_skill("skills/reports")
        print(skill.name, list(skill.scripts))
        ```

    Args:
        folder: The folder of the skill.
        name: Name for the model: letters, digits and hyphens, at most 64.
        description: Purpose of the skill and occasions for its use, at most 1,024 characters.
        body: The instructions, in Markdown.
        license: Name of the license, or of the file that holds it.
        compatibility: Needs of the skill: programs, packages, network.
        metadata: Further properties.
        allowed_tools: Tools that the author wants approved in advance. Shown, never obeyed: the
            policy of the agent decides.
        files: SHA-256 of every file by its path in the folder, without `SKILL.md`.
        scripts: The files that can be run, each with its program: those in `scripts/` with a known
            ending, and all with a first line `#!`.
        digest: SHA-256 over `SKILL.md` and all files: the version of the skill.
        faults: Breaches of the specification that do not prevent the use.
    """

    folder: Path
    name: str
    description: str
    body: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    allowed_tools: str = ""
    files: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    scripts: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], hash=False
    )
    digest: str = ""
    faults: tuple[SkillFault, ...] = ()


def read_skill(folder: Path | str) -> Skill:
    """Returns the skill in `folder`.

    Args:
        folder: The folder with the `SKILL.md`.

    Raises:
        ConfigError: The skill cannot be used. An ExceptionGroup if there are several reasons.
    """
    skill, faults = examine(Path(folder))
    if skill is not None:
        return skill
    errors = [ConfigError(str(fault)) for fault in faults if fault.fatal]
    if len(errors) == 1:
        raise errors[0]
    raise ExceptionGroup(f"the skill in {str(folder)!r} cannot be used", errors)


def examine(folder: Path) -> tuple[Skill | None, list[SkillFault]]:
    """Returns the skill in `folder`, or None if it cannot be used, and all its faults."""
    # The real path: the folder's name is compared with the skill's, and scripts run from it.
    place = Path(os.path.realpath(folder))
    if not place.is_dir():
        kind = "is a file, not a folder" if place.exists() else "does not exist"
        return None, [SkillFault(folder, f"{kind}: name the folder of a skill")]
    try:
        contents = _contents(place)
    except _Fatal as error:
        return None, [error.fault]
    if SKILL_FILE not in contents:
        other = next((name for name in contents if name.lower() == SKILL_FILE.lower()), "")
        hint = f"rename {other}" if other else "a skill needs that file"
        return None, [SkillFault(place, f"has no {SKILL_FILE}: {hint}")]
    path = place / SKILL_FILE
    try:
        text = _text(path, contents[SKILL_FILE])
        front, body = _parts(path, text)
        values, faults = _frontmatter(path, front)
    except _Fatal as error:
        return None, [error.fault]
    found = _Checked(path, front, values, faults)
    name, description = found.name(place.name), found.description()
    found.unknown()
    if not body:
        found.fault((), "has no instructions after the second '---'", fatal=False)
    scripts = {name: _program(name, raw) for name, raw in contents.items()}
    digests = {name: sha256(raw).hexdigest() for name, raw in contents.items()}
    skill = Skill(
        place,
        name,
        description,
        body,
        license=found.text("license"),
        compatibility=found.text("compatibility", LONGEST_COMPATIBILITY),
        metadata=found.metadata(),
        allowed_tools=found.text("allowed-tools"),
        files={name: digest for name, digest in digests.items() if name != SKILL_FILE},
        scripts={name: program for name, program in scripts.items() if program},
        digest=_digest(digests),
        faults=tuple(faults),
    )
    return (None if any(fault.fatal for fault in faults) else skill), faults


def _program(path: str, raw: bytes) -> tuple[str, ...]:
    """Returns the program that runs a file, with its arguments; () if the file is no script."""
    if raw.startswith(b"#!"):
        first = raw[2:256].split(b"\n")[0].decode(errors="replace")
        words = tuple(first.split())
        # The program after `env` is looked up in the command's PATH.
        if words[:1] == ("/usr/bin/env",):
            return words[2:] if words[1:2] == ("-S",) else words[1:]
        return words
    name, dot, ending = path.rpartition(".")
    return PROGRAMS.get(dot + ending.lower(), ()) if name.startswith("scripts/") else ()


def unchanged(skill: Skill) -> dict[str, bytes] | None:
    """Returns the files of the skill if they are those that were read before, else None."""
    try:
        contents = _contents(skill.folder)
    except (_Fatal, OSError, ConfigError):
        return None
    digests = {name: sha256(raw).hexdigest() for name, raw in contents.items()}
    return contents if _digest(digests) == skill.digest else None


def unchanged_file(skill: Skill, name: str) -> bytes | None:
    """Returns one file of the skill if it is the one that was read before, else None."""
    try:
        raw = _content(skill.folder / name, skill.folder, MOST_BYTES)
    except (_Fatal, OSError):
        return None
    return raw if sha256(raw).hexdigest() == skill.files.get(name) else None


def write_copy(contents: Mapping[str, bytes], folder: Path) -> None:
    """Writes the files of a skill to `folder`, for scripts: nothing else of the skill is there."""
    for name, raw in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        if raw.startswith(b"#!"):
            path.chmod(0o755)


def _digest(digests: Mapping[str, str]) -> str:
    lines = "".join([f"{digests[name]}  {name}\0" for name in sorted(digests)])
    return sha256(lines.encode()).hexdigest()


class _Fatal(Exception):
    """The skill cannot be read further."""

    def __init__(self, path: Path, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.fault = SkillFault(path, message, line)


def _contents(folder: Path) -> dict[str, bytes]:
    """Returns the files of the folder by their path in it, sorted."""
    found: dict[str, bytes] = {}
    left = MOST_BYTES
    for path in _files(folder):
        if len(found) >= MOST_FILES:
            raise _Fatal(folder, f"has more than {MOST_FILES:,} files")
        raw = _content(path, folder, left)
        left -= len(raw)
        if left < 0:
            raise _Fatal(folder, f"has more than {MOST_BYTES // 1_000_000} MB of files")
        found[path.relative_to(folder).as_posix()] = raw
    return {name: found[name] for name in sorted(found)}


def _content(path: Path, folder: Path, most: int) -> bytes:
    """Returns the content of a file in the folder, up to one byte more than `most`."""
    # The file may have become a link or a FIFO since it was listed.
    try:
        descriptor = open_file(path, trust="content", place=folder)
    except ConfigError as error:
        raise _Fatal(path, str(error)) from error
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most + 1)


def _files(folder: Path) -> Iterator[Path]:
    def failed(error: OSError) -> None:
        raise _Fatal(Path(error.filename), f"cannot be read: {error.strerror}")

    for here, folders, files in os.walk(folder, onerror=failed):
        for name in [*folders, *files]:
            path = Path(here, name)
            try:
                name.encode()
            except UnicodeEncodeError:
                raise _Fatal(path, "has a name that is not UTF-8: rename it") from None
            mode = path.lstat().st_mode
            if name in _SKIPPED and stat.S_ISDIR(mode):
                continue
            if stat.S_ISLNK(mode):
                raise _Fatal(path, "is a link: replace it by the file that it leads to")
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise _Fatal(path, "is not a regular file: remove it")
        folders[:] = [name for name in folders if name not in _SKIPPED]
        yield from (Path(here, name) for name in files)


def _text(path: Path, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _Fatal(path, "is not UTF-8: save it in that encoding", line) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise _Fatal(path, "has a NUL character: remove it", line)
    if len(text) > MOST_CHARS:
        raise _Fatal(
            path,
            f"has {len(text):,} characters, the limit is {MOST_CHARS:,}: "
            "move parts into files that the instructions name",
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parts(path: Path, text: str) -> tuple[str, str]:
    """Returns the YAML, with an empty line for the first `---`, and the instructions."""
    lines = text.split("\n")
    if lines[0].rstrip() != _MARK:
        raise _Fatal(path, "does not begin with '---': write name and description before it", 1)
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _MARK:
            # The empty first line keeps the line numbers of the file.
            return "\n".join(["", *lines[1:index]]), "\n".join(lines[index + 1 :]).strip()
    raise _Fatal(path, "has no second line '---': it ends the name and description", 1)


def _frontmatter(path: Path, front: str) -> tuple[dict[str, Any], list[SkillFault]]:
    faults: list[SkillFault] = []
    documents: list[Any] = []
    try:
        documents = yaml.load(front, str(path))
    except ConfigError as error:
        quoted = "\n".join([_UNQUOTED.sub(_quoted, line) for line in front.split("\n")])
        with suppress(ConfigError):
            documents = yaml.load(quoted, str(path))
        if not documents:
            line = re.search(r":(\d+)$", error.path or "")
            message = str(error).removeprefix(f"{error.path}: ")
            raise _Fatal(path, message, int(line[1]) if line else 0) from None
        pairs = zip(front.split("\n"), quoted.split("\n"), strict=True)
        changed = [number for number, (a, b) in enumerate(pairs, start=1) if a != b]
        wrong = "is not YAML: put the text after the first colon in quotes"
        faults += [SkillFault(path, wrong, number, fatal=False) for number in changed]
    value = documents[0] if documents else None
    if not is_object(value):
        raise _Fatal(path, "has no keys between the lines '---': write name and description", 1)
    return dict(value), faults


def _quoted(match: re.Match[str]) -> str:
    text = match[2].rstrip().replace("\\", "\\\\").replace('"', '\\"')
    return f'{match[1]}: "{text}"'


@dataclass(frozen=True, slots=True)
class _Checked:
    """The values of a frontmatter, each checked when it is read."""

    path: Path
    front: str
    values: Mapping[str, Any]
    faults: list[SkillFault]

    def fault(self, key_path: tuple[str, ...], message: str, *, fatal: bool) -> None:
        line = yaml.line(self.front, key_path) if key_path else 0
        text = f"{'.'.join(key_path)}: {message}" if key_path else message
        self.faults.append(SkillFault(self.path, text, line, fatal))

    def _required(self, key: str) -> str:
        value = self.values.get(key)
        if key not in self.values:
            self.fault((), f"{key} is missing", fatal=True)
        elif value is None or (isinstance(value, str) and not value.strip()):
            self.fault((key,), "is empty", fatal=True)
        elif not isinstance(value, str):
            self.fault((key,), f"must be text, not {value!r}: put it in quotes", fatal=True)
        else:
            return value.strip()
        return ""

    def name(self, folder: str) -> str:
        name = normalize("NFKC", self._required("name"))
        if not name:
            return ""
        key = ("name",)
        # Characters beyond these could imitate other text in the list that the model reads.
        if len(name) > LONGEST_NAME:
            wrong = f"has {len(name)} characters, the limit is {LONGEST_NAME}"
            self.fault(key, wrong, fatal=True)
        elif not all(each.isalnum() or each in "-_." for each in name):
            wrong = f"{name!r} may have only lowercase letters, digits and hyphens"
            self.fault(key, wrong, fatal=True)
        elif name != name.lower() or "_" in name or "." in name:
            wrong = f"{name!r} should have only lowercase letters, digits and hyphens"
            self.fault(key, wrong, fatal=False)
        elif name.startswith("-") or name.endswith("-") or "--" in name:
            wrong = f"{name!r} should have single hyphens between words only"
            self.fault(key, wrong, fatal=False)
        elif normalize("NFKC", folder) != name:
            wrong = f"{name!r} should be the name of the folder, which is {folder!r}"
            self.fault(key, wrong, fatal=False)
        return name

    def description(self) -> str:
        text = self._required("description")
        if len(text) > LONGEST_DESCRIPTION:
            wrong = f"has {len(text):,} characters, the limit is {LONGEST_DESCRIPTION:,}"
            # The whole list of skills is in each request.
            self.fault(("description",), f"{wrong}; the rest is not shown", fatal=False)
        return text[:LONGEST_DESCRIPTION]

    def text(self, key: str, longest: int = 0) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fault((key,), f"must be text, not {value!r}", fatal=False)
            return ""
        if longest and len(value) > longest:
            wrong = f"has {len(value):,} characters, the limit is {longest:,}"
            self.fault((key,), wrong, fatal=False)
        return value.strip()

    def metadata(self) -> dict[str, str]:
        value = self.values.get("metadata")
        if value is None:
            return {}
        if not is_object(value):
            self.fault(("metadata",), "must be keys with texts", fatal=False)
            return {}
        for key, each in value.items():
            if not isinstance(each, str):
                wrong = f"must be text, not {each!r}: put it in quotes"
                self.fault(("metadata", str(key)), wrong, fatal=False)
        return {str(key): str(each) for key, each in value.items()}

    def unknown(self) -> None:
        for key in self.values:
            if key not in KEYS:
                hint = near(str(key), KEYS)
                self.fault((str(key),), f"is not a key of a skill; {hint}", fatal=False)
