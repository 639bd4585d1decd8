"""docs/cookbook/slack.md

Requests are signed as Slack documents it (https://docs.slack.dev/authentication/
verifying-requests-from-slack), payloads have the fields of its `block_actions`.
"""

import hashlib
import hmac
import json
import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.cookbook.conftest import Reader, answer, call
from tests.ports import free_port, wait_for
from tests.terminal import PATIENCE

ASK = 'python approvals.py ask "Ada was charged 40 euros twice."'
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"


class Slack(ThreadingHTTPServer):
    """Slack's side: takes messages, signs clicks."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Takes)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.got: queue.Queue[tuple[str, str, Any]] = queue.Queue()

    def message(self) -> tuple[str, str, Any]:
        """The next message: its path, its credentials, its JSON."""
        return self.got.get(timeout=PATIENCE)


class Takes(BaseHTTPRequestHandler):
    server: Slack

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.put((self.path, self.headers.get("Authorization", ""), body))
        reply = b'{"ok": true}' if self.path.startswith("/api/") else b"ok"
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)


@pytest.fixture
def slack() -> Iterator[Slack]:
    server = Slack()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def signature(body: str, timestamp: str) -> str:
    signed = f"v0:{timestamp}:{body}".encode()
    return "v0=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()


def test_the_signature_is_the_one_of_slack_s_own_example() -> None:
    body = (
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        "&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        "&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
        "%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    expected = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert signature(body, "1531420618") == expected


class Clicks:
    """A user in the channel, who clicks buttons."""

    def __init__(self, url: str, slack: Slack) -> None:
        self.url, self.slack = url, slack

    def __call__(
        self, button: dict[str, Any], user: str, *, age: int = 0, forged: bool = False
    ) -> int:
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": "grace"},
            "response_url": f"{self.slack.url}/actions/T1/2/3",
            "actions": [{"type": "button", **button}],
        }
        body = urllib.parse.urlencode({"payload": json.dumps(payload)})
        timestamp = str(int(time.time()) - age)
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": signature(body + "x" * forged, timestamp),
        }
        request = urllib.request.Request(self.url, body.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def click(reader: Reader, slack: Slack) -> Clicks:
    """The server of the page, and a way to click."""
    return serving(reader, slack)


def serving(reader: Reader, slack: Slack) -> Clicks:
    """Starts the server of the page; returns a way to click."""
    reader.opens("slack.md")
    port = free_port()
    reader.environment |= {
        "SLACK_API": f"{slack.url}/api",
        "SLACK_BOT_TOKEN": "xoxb-1",
        "SLACK_SIGNING_SECRET": SECRET,
        "SLACK_CHANNEL": "C1",
        "SLACK_APPROVERS": "U1,U2",
        "PORT": str(port),
    }
    wait_for(port, reader.starts("python approvals.py serve"))  # type: ignore[arg-type]
    return Clicks(f"http://127.0.0.1:{port}/slack", slack)


def test_a_click_decides_and_the_run_goes_on(reader: Reader, slack: Slack, click: Clicks) -> None:
    reader.scripts(
        call("refund", customer="Ada", euros=40),
        answer("Ada got 40 EUR back."),
    )
    done = reader.types(ASK)
    assert "waiting" in done.stdout, done.stderr
    path, credentials, posted = slack.message()
    assert (path, credentials, posted["channel"]) == (
        "/api/chat.postMessage",
        "Bearer xoxb-1",
        "C1",
    )
    question, buttons = posted["blocks"]
    assert "refund(customer='Ada', euros=40)" in question["text"]["text"]
    approve, deny = buttons["elements"]
    assert (approve["action_id"], deny["action_id"]) == ("approve", "deny")

    assert click(approve, "U1", forged=True) == 401
    assert click(approve, "U1", age=400) == 401
    assert click(approve, "U9") == 200  # known to Slack, and no approver
    _, _, refused = slack.message()
    assert refused["response_type"] == "ephemeral"
    assert len(reader.providers.asked) == 1  # the run still waits

    assert click(approve, "U2") == 200
    _, _, note = slack.message()
    assert (note["replace_original"], note["text"]) == (True, "approve: decided by <@U2>")
    _, _, end = slack.message()
    assert end["text"] == "Ada got 40 EUR back."
    assert "40 EUR went back to Ada" in reader.providers.asked[1].turns[-1].text

    assert click(deny, "U1") == 200  # too late
    _, _, late = slack.message()
    assert late["response_type"] == "ephemeral"
    assert len(reader.providers.asked) == 2


def test_a_denied_call_is_not_made(reader: Reader, slack: Slack, click: Clicks) -> None:
    reader.scripts(call("refund", customer="Ada", euros=4_000), answer("It was not allowed."))
    reader.types(ASK)
    _, _, posted = slack.message()
    assert click(posted["blocks"][1]["elements"][1], "U1") == 200
    assert slack.message()[2]["text"] == "deny: decided by <@U1>"
    assert slack.message()[2]["text"] == "It was not allowed."
    assert "went back" not in reader.providers.asked[1].turns[-1].text


def test_a_question_too_long_for_slack_names_the_command(
    reader: Reader, slack: Slack, click: Clicks
) -> None:
    reader.scripts(call("refund", customer="A" * 4_000, euros=4))
    reader.types(ASK)
    (block,) = slack.message()[2]["blocks"]
    assert "taofold approvals approve " in block["text"]["text"]


def test_a_missing_setting_is_named(reader: Reader) -> None:
    reader.opens("slack.md")
    done = reader.types(ASK)
    assert (done.returncode, done.stderr) == (1, "set the environment variable SLACK_BOT_TOKEN\n")


def test_without_a_key(reader: Reader, slack: Slack) -> None:
    reader.environment["TAOFOLD_MODEL"] = "test:tools"
    click = serving(reader, slack)
    reader.types(ASK)
    _, _, posted = slack.message()
    question, buttons = posted["blocks"]
    assert "refund(customer='a', euros=0)" in question["text"]["text"]
    assert click(buttons["elements"][0], "U1") == 200
    assert slack.message()[2]["text"] == "approve: decided by <@U1>"
    assert slack.message()[2]["text"] == "called refund"
    assert reader.providers.asked == []
