"""Files that an agent writes reach the disk unchanged: secret detection changes no byte.

Each text takes the whole path: native call, policy, tool, disk, log, replay. A call with a certain
secret, or with a mask of one, is refused with the location.

Mutants: a guess applies to arguments, to results or to answers; a mask is written back; a mask of
this runtime and a literal one are treated as the same; a masked call runs.
"""

import html
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from taofold import Agent, open_log
from taofold.core import events as e
from taofold.core.values import Profile, Reply, ToolCall
from taofold.log.log import Log
from taofold.policy.redaction import MARK, Redactor
from taofold.runtime.control import steer
from taofold.testing import ScriptedModel
from taofold.tools.files import file_tools

pytestmark = pytest.mark.anyio

NATIVE = Profile(window=1_000_000, window_known=True, native_tools=True)
KNOWN = "correct-horse-battery"
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0T"
SAMPLES = {
    "go test output": "=== RUN   TestAll\n--- PASS: TestAll (0.00s)\n"
    "--- FAIL: TestAuth/token=abc123def\n",
    "kubernetes": "apiVersion: v1\nkind: Secret\nstringData:\n  password: hunter2hunter2\n"
    "data:\n  token: aHVudGVyMmh1bnRlcjJodW50ZXIy\n",
    "kubernetes env": "env:\n- name: DB_PASSWORD\n  value: s3cr3tPassw0rd\n",
    "compose": "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: s3cr3t!Pw0rd9\n"
    "      - MYSQL_ROOT_PASSWORD=correcthorse\n",
    "dotenv": "API_KEY=x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU\nSECRET_KEY='changeme-9f8e7d6c'\n",
    "terraform": 'resource "aws_db_instance" "x" {\n\tpassword = "S3cretP4ss!word"\n}\n'
    'variable "token" { default = "x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU" }\n',
    "jwt": f'const TOKEN = "{JWT}";\nexpect(auth("Bearer {JWT}")).toBe(true)\n',
    "translation": '{"password": "Passwort", "passcode": "Geheim1zahl!"}',
    "grants": "CREATE USER bob IDENTIFIED BY PASSWORD 'hunter2!';\nGRANT ALL ON x TO 'bob'@'%';\n",
    "addresses": "DATABASE_URL=postgres://user:p4ssw0rd9@db:5432/app\n"
    "https://a1b2c3d4e5f6a1b2c3d4@github.com/x\n",
    "python": "def test_login():\n    assert login(password='hunter2hunter2', key=\"0a1b2c3d4e\")",
    "json": '{\n  "name": "API_TOKEN",\n  "value": "x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU"\n}',
    "curl": "curl -u admin:hunter2hunter2 -H 'Authorization: Basic YWRtaW46aHVudGVyMg==' https://x\n",
    "netrc": "machine example.org login me password hunter2hunter2\n",
    "pem template": '"-----BEGIN PRIVATE KEY-----\\n" + body + "\\n-----END PRIVATE KEY-----"\n',
    "placeholders": f"ghp_{'x' * 36} sk-your-key-here AKIAIOSFODNN7EXAMPLE xoxb-your-token-here\n",
    "identifiers": "napi_get_value_string_utf8_length(); gsk_render_node_get_bounds_of_it();\n",
    "a literal mask": f'return "{MARK}"  # never log it\n- {MARK}\n',
    "windows": "password: hunter2hunter2\r\n\tapi_key = 'x7QdR2mKp9LwZ4vT'\r\n",
    "mixed ends": "password=a1b2c3d4e5\r\npassword=a1b2c3d4e5\nlast\r",
    "byte order mark": "\ufeffpassword: hunter2hunter2\n",
    "no last newline": "token: x7QdR2mKp9LwZ4vTn8YbC3sHf6GjA1eU",
    "escapes": 'a = "\\u0070assword: hunter2hunter2 \\\\n \\" \\\\"\n',
    "unicode": "пароль: hunter2hunter2 ｐassword: hunter2hunter2 ſecret=hunter2x 😀\n",
    "spaces": "  \t password:   hunter2hunter2   \n\n\n",
}  # fmt: skip
WORDS = {name: text for name, text in SAMPLES.items() if name not in ("mixed ends", "windows")}
"""Texts with one kind of line end: `edit_file` keeps the one that its file has."""


def call(name: str, **arguments: Any) -> Reply:
    return Reply(text="t", calls=(ToolCall(name, json.dumps(arguments), "1"),))


def answer(text: str = "done") -> Reply:
    return Reply(text=text)


class Road:
    """An agent with file tools in `folder`, and what happened in its one run."""

    def __init__(self, folder: Path, *script: Reply, secrets: tuple[str, ...] = (KNOWN,)) -> None:
        self.root, self.path = folder / "work", folder / "runs.db"
        self.root.mkdir(exist_ok=True)
        self.model = ScriptedModel([*script], profile=NATIVE)
        self.log: Log = open_log(self.path)
        self.agent = Agent(
            self.model,
            tools=[file_tools(self.root, write=True)],
            log=self.log,
            secrets=[*secrets],
            approve="all",
        )

    async def drive(self, goal: str = "write it", **options: Any) -> list[e.Observed]:
        """Returns the observations. The log is read again from disk and replayed."""
        self.result = await self.agent.run(goal, run_id="r", **options)
        assert self.result.success, self.result.error
        shown = [request.messages[-1].content for request in self.model.requests]
        await self.log.close()
        self.agent = self.agent.replace(log=open_log(self.path))
        replayed = await self.agent.replay("r")
        assert replayed.steps == self.result.steps
        assert len(shown) == len(self.model.requests), "a replay asks no model"
        return [r.event for r in self.result.records if isinstance(r.event, e.Observed)]

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_bytes(text.encode())


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_written_file_is_what_the_model_wrote(tmp_path: Path, name: str) -> None:
    text = SAMPLES[name]
    road = Road(tmp_path, call("write_file", path="a.txt", content=text), answer(f"It is: {text}"))
    observed = await road.drive(f"write this: {text}")
    assert road.read("a.txt") == text.encode()
    assert observed[0].observation.status == "success"
    (proposed, *_) = [r.event for r in road.result.records if isinstance(r.event, e.Proposed)]
    assert proposed.actions[0].parameters["content"] == text
    assert not road.result.state.masked
    assert road.result.state.goal == f"write this: {text}"
    assert road.result.output == f"It is: {text}".strip()


@pytest.mark.parametrize("name", WORDS)
async def test_what_was_read_can_be_edited_byte_for_byte(tmp_path: Path, name: str) -> None:
    """The model edits what it was shown, as it was shown."""
    old = WORDS[name]
    new = old.replace("hunter2", "hunter3").rstrip("\n") + "\nand more: s3cr3tPassw0rd\n"
    road = Road(
        tmp_path,
        call("read_file", path="a.txt"),
        call(
            "edit_file",
            path="a.txt",
            old=old.removeprefix("\ufeff"),
            new=new.removeprefix("\ufeff"),
        ),
        answer(),
    )
    road.write("a.txt", f"first\n{old}" if "\ufeff" not in old else old)
    observed = await road.drive()
    assert [one.observation.status for one in observed[:2]] == ["success", "success"]
    assert road.read("a.txt") == (f"first\n{new}" if "\ufeff" not in old else new).encode()
    shown = str(observed[0].observation.result)
    for line in old.removeprefix("\ufeff").splitlines():
        assert line.strip() in shown


SIGNS = "p&ss<w>o'r d$9/"
ESCAPED = (html.escape(SIGNS), quote(SIGNS, safe=""), shlex.quote(SIGNS), SIGNS.replace("$", "\\$"))


@pytest.mark.parametrize("secret", [KNOWN, TOKEN, *ESCAPED])
@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_a_certain_secret_in_a_writing_call_is_refused_with_its_place(
    tmp_path: Path, secret: str, tool: str
) -> None:
    text = f"a: 1\nb: 2\nkey: {secret}\n"
    parameter = {"write_file": {"content": text}, "edit_file": {"old": "old", "new": text}}[tool]
    road = Road(tmp_path, call(tool, path="a.yml", **parameter), answer(), secrets=(KNOWN, SIGNS))
    road.write("a.yml", "old")
    (refused, *_) = await road.drive()
    assert refused.observation.refused == "masked"
    assert f"{[*parameter][-1]}, line 3 " in str(refused.observation.result)
    assert road.read("a.yml") == b"old"
    assert secret.encode() not in b"".join([f.read_bytes() for f in tmp_path.glob("runs.db*")])


@pytest.mark.parametrize("source", ["result", "goal", "reply", "history", "message"])
async def test_a_mask_is_never_written_back_wherever_the_model_saw_it(
    tmp_path: Path, source: str
) -> None:
    said = f"the key is {KNOWN}"
    first = call("read_file", path="a.yml")
    if source == "reply":
        first = Reply(text=said, calls=(ToolCall("list_files", "{}", "1"),))
    script = [first, call("write_file", path="b.yml", content=f"a\nkey: {MARK}\n"), answer()]
    road = Road(tmp_path, *script)
    road.write("a.yml", f"key: {KNOWN}\n" if source == "result" else "nothing\n")
    options: dict[str, Any] = {}
    if source == "history":
        options["history"] = [{"role": "user", "content": said}]
    if source == "message":
        await road.agent.begin("write it", run_id="r")
        await steer(road.log, "r", said, redactor=road.agent.redactor)
        result = await road.agent.resume("r")
        observed = [r.event for r in result.records if isinstance(r.event, e.Observed)]
    else:
        observed = await road.drive(said if source == "goal" else "write it", **options)
    assert observed[1].observation.refused == "masked"
    assert "content, line 2 " in str(observed[1].observation.result)
    assert not (road.root / "b.yml").exists()


async def test_around_a_masked_secret_a_file_can_be_edited(tmp_path: Path) -> None:
    text = f"user: bob\nkey: {KNOWN}\nport: 1\n"
    road = Road(
        tmp_path,
        call("read_file", path="a.yml"),
        call("edit_file", path="a.yml", old=f"key: {MARK}\nport: 1", new=f"key: {MARK}\nport: 2"),
        call("edit_file", path="a.yml", old="port: 1", new="port: 2"),
        answer(),
    )
    road.write("a.yml", text)
    read, refused, edited, *_ = await road.drive()
    assert read.observation.masked
    assert f"key: {MARK}" in str(read.observation.result)
    assert refused.observation.refused == "masked"
    assert "old, line 1" in str(refused.observation.result)
    assert edited.observation.status == "success"
    assert road.read("a.yml") == text.replace("port: 1", "port: 2").encode()


async def test_a_literal_mask_is_text_like_any_other(tmp_path: Path) -> None:
    """The file contains the mask's text, in a run that has masked nothing."""
    road = Road(
        tmp_path,
        call("read_file", path="log.go"),
        call("edit_file", path="log.go", old=f'"{MARK}"', new=f'"{MARK}" // twice: {MARK}'),
        answer(),
    )
    road.write("log.go", f'return "{MARK}"\n')
    await road.drive(f"say {MARK} twice")
    assert road.read("log.go") == f'return "{MARK}" // twice: {MARK}\n'.encode()
    assert not road.result.state.masked


async def test_a_run_that_is_resumed_knows_that_it_masked_a_secret(tmp_path: Path) -> None:
    """The mask counts by the log, not by what this process remembers."""
    first = Road(tmp_path, call("read_file", path="a.yml"))
    first.write("a.yml", f"key: {KNOWN}\n")
    with pytest.raises(Exception, match="script has 1 repl"):
        await first.agent.run("copy it", run_id="r")
    await first.log.close()
    road = Road(tmp_path, call("write_file", path="b.yml", content=f"key: {MARK}\n"), answer())
    result = await road.agent.resume("r")
    observed = [r.event for r in result.records if isinstance(r.event, e.Observed)]
    assert observed[1].observation.refused == "masked"
    assert not (road.root / "b.yml").exists()


def test_the_samples_are_what_guesses_would_change() -> None:
    """Else the tests above would prove nothing."""
    guessing = Redactor(guesses=True)
    spared = {name for name, text in SAMPLES.items() if guessing.text(text) == text}
    assert spared == {"a literal mask"}
