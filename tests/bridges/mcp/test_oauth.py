"""Sign-in to a server with FastMCP's own authorization server, which approves at once.

Mutants: tokens that other users may read; a refresh that is not stored; an unrequested answer to
the callback; an authorization server in a private network; a sign-in that starts during a run; a
principal that is missing in the path of the tokens, or in the check of a sign-out.
"""

import asyncio
import json
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from taofold import Agent, Principal, RunContext
from taofold.bridges.mcp import McpServer, OAuth
from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.oauth import (
    KeptTokens,
    SignInFailed,
    _code_of,
    admit,
    all_kept,
    provider,
)
from taofold.bridges.mcp.client.signin import sign_in
from taofold.bridges.mcp.sdk import load
from taofold.core.errors import ConfigError
from taofold.server.auth import TokenStore
from tests.runtime.kit import Memo
from tests.server.live import Client, serving

from .test_fastmcp import PEERS, Peer, bridge, call, peer

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Browser:
    """Opens what it is shown, and follows where it is sent."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self, url: str) -> None:
        self.opened.append(url)
        task = asyncio.create_task(self._follow(url))
        self._tasks.add(task)

    async def _follow(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            await client.get(url)


@contextmanager
def authorized(name: str, folder: Path) -> Iterator[Peer]:
    """A server that brings an authorization server along."""
    (folder / "oauth").touch()
    with peer(name, folder) as there:
        yield there


def place(there: Peer, **oauth: Any) -> ServerAddress:
    return ServerAddress("http", url=there.url, oauth=OAuth(**oauth))


@pytest.mark.mcp_real
@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_who_signed_in_once_calls_and_the_tokens_are_renewed_by_themselves(
    name: str, mode: str, tmp_path: Path
) -> None:
    with authorized(name, tmp_path) as there:
        options = {"mode": mode, "oauth": OAuth()}
        with pytest.raises(ConfigError, match=f"taofold mcp login {there.url}"):
            await bridge(there, **options).open()
        browser = Browser()
        signed_in = await sign_in(place(there), browser)
        assert (signed_in.asked, len(browser.opened), signed_in.tools) == (True, 1, 6)
        kept = KeptTokens(there.url)
        assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
        first = kept.stored()
        async with bridge(there, **options) as server:
            assert (await call(server, "note", text="1")).value == "noted"
            (tmp_path / "expire").touch()  # the server ends it before its time
            again = await asyncio.gather(*[call(server, "note", text=n) for n in "23"])
            assert [one.value for one in again] == ["noted", "noted"]
        second = kept.stored()
        kept._keep(expires_at=1.0)  # its time is over
        async with bridge(there, **options) as later:  # as another process: it knows the file only
            assert (await call(later, "note", text="4")).value == "noted"
        assert sorted(there.calls) == ["1", "2", "3", "4"]
        tokens = [(one.tokens or {})["access_token"] for one in (first, second, kept.stored())]
        assert len(set(tokens)) == 3
        assert len(browser.opened) == 1, "nobody was asked again"


async def who(server: McpServer, principal: str) -> Any:
    """The token that reaches the server from a run of `principal`, or why there is none."""
    context = RunContext(None, principal=Principal(principal))
    return (await server["s_who"].bind({}).run(context)).value


def token_of(there: Peer, principal: str) -> str:
    return str((KeptTokens(there.url, principal=principal).stored().tokens or {})["access_token"])


@pytest.mark.mcp_real
@pytest.mark.parametrize(("name", "mode"), PEERS)
async def test_each_principal_signs_in_for_itself_and_calls_with_its_own_token(
    name: str, mode: str, tmp_path: Path
) -> None:
    with authorized(name, tmp_path) as there:
        everybody = place(there, per_principal=True)
        await sign_in(everybody, Browser())  # the tools are listed as the operator
        await sign_in(everybody.of(Principal("ann")), Browser())
        async with bridge(there, mode=mode, oauth=everybody.oauth) as server:
            assert await who(server, "ann") == token_of(there, "ann")
            refused = str(await who(server, "bob"))
            assert "bob must sign in: on the page Servers of the console, or " in refused
            assert f"`taofold mcp login {there.url} --principal bob`" in refused
            await sign_in(everybody.of(Principal("bob")), Browser())
            seen = await asyncio.gather(*[who(server, each) for each in ("bob", "ann", "local")])
            assert seen == [token_of(there, each) for each in ("bob", "ann", "")]
            assert len(set(seen)) == 3
            (tmp_path / "expire").touch()  # each renews its own, not another's
            assert await who(server, "ann") == token_of(there, "ann") != seen[1]
            assert token_of(there, "bob") == seen[0]
            assert KeptTokens(there.url, principal="ann").forget()
            assert "ann must sign in" in str(await who(server, "ann"))
        assert sorted(stored.principal for stored in all_kept()) == ["", "bob"]


@pytest.mark.mcp_real
async def test_a_principal_reads_resources_with_its_own_credentials(tmp_path: Path) -> None:
    def headers(principal: Principal | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {'' if principal is None else principal.id}-token"}

    with peer("fastmcp3", tmp_path, token="*") as there:
        async with bridge(there, headers=headers, resources=True) as server:
            context = RunContext(None, principal=Principal("ann"))
            read = await server["s_read_resource"].bind({"uri": "who://calls"}).run(context)
            assert read.value == "ann-token"


@pytest.mark.mcp_real
async def test_a_principal_signs_in_by_the_console_and_nobody_ends_it_for_another(
    tmp_path: Path,
) -> None:
    with authorized("fastmcp3", tmp_path) as there:
        everybody = place(there, per_principal=True)
        await sign_in(everybody, Browser())
        async with bridge(there, oauth=everybody.oauth) as server:
            agent = Agent(Memo([]), tools=[server])
            async with serving(
                {"main": agent},
                tmp_path / "runs.db",
                tokens=TokenStore(tmp_path / "tokens.json"),
                token="",
            ) as client:
                ann, eve = (bearer(client, each) for each in ("ann", "eve"))
                [row] = (await client.get("/servers", headers=ann)).json()["items"]
                assert (row["server"], row["signed_in"], row["shared"]) == (there.url, False, False)
                begun = await client.post("/servers/signin", {"server": there.url}, headers=ann)
                address = begun.json()["address"]
                async with httpx2.AsyncClient(follow_redirects=True) as browser:
                    page = await browser.get(address)  # it approves and is sent back
                assert page.status_code == 200
                assert page.url.path == "/signed-in"
                assert "js/main.js" in page.text
                back = {"address": str(page.url)}
                for forged in (back, {"address": f"{client.url}/signed-in?code=x&state="}):
                    path = "/servers/signin/finish"
                    assert (await client.post(path, forged, headers=eve)).status_code == 404
                done = await client.post("/servers/signin/finish", back, headers=ann)
                assert (done.status_code, done.json()["tools"]) == (200, 6)
                again = await client.post("/servers/signin/finish", back, headers=ann)
                assert again.status_code == 404
                assert await who(server, "ann") == token_of(there, "ann")
                assert "eve must sign in" in str(await who(server, "eve"))
                [row] = (await client.get("/servers", headers=ann)).json()["items"]
                assert row["signed_in"]
                [row] = (await client.get("/servers", headers=eve)).json()["items"]
                assert not row["signed_in"]
                elsewhere = {"server": "http://127.0.0.1:1/mcp"}
                unknown = await client.post("/servers/signin", elsewhere, headers=ann)
                assert unknown.status_code == 404, "only servers of the agents"
                await client.post("/servers/signout", {"server": there.url}, headers=ann)
                assert "ann must sign in" in str(await who(server, "ann"))


def bearer(client: Client, name: str) -> dict[str, str]:
    token = client.server.tokens.add(name, ["EDITOR"])
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.mcp_real
@pytest.mark.parametrize("name", ["fastmcp3", "phoenix"])
async def test_of_two_that_refresh_at_once_neither_loses_the_sign_in(
    name: str, tmp_path: Path
) -> None:
    with authorized(name, tmp_path) as there:
        await sign_in(place(there), Browser())
        one, two = (bridge(there, oauth=OAuth()) for _ in range(2))
        async with one, two:
            for n in range(2):
                (tmp_path / "expire").touch()
                # Each rotates the refresh token under the other's feet.
                for server in (one, two):
                    assert (await call(server, "note", text=str(n))).value == "noted"


@pytest.mark.mcp_real
@pytest.mark.parametrize("name", ["fastmcp3", "phoenix"])
async def test_who_is_signed_out_by_the_server_reads_what_to_type(
    name: str, tmp_path: Path
) -> None:
    with authorized(name, tmp_path) as there:
        await sign_in(place(there), Browser())
        async with bridge(there, oauth=OAuth()) as server:
            assert (await call(server, "note", text="1")).value == "noted"
            there.stop()
            there.start()  # it has forgotten its clients and tokens
            refused = await call(server, "note", text="2")
            assert refused.status == "failure"
            assert f"taofold mcp login {there.url}" in str(refused.value)
            assert "may have happened" not in str(refused.value)
            await sign_in(place(there), Browser())
            assert (await call(server, "note", text="3")).value == "noted"
            assert there.calls == ["1", "3"]


@pytest.mark.mcp_real
async def test_the_command_signs_in_lists_and_signs_out_and_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1])\n"
    )
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s &")

    def taofold(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "taofold", "mcp", *words],
            cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    with authorized("fastmcp3", tmp_path) as there:
        agent = tmp_path / "agent.yaml"
        agent.write_text(
            "name: a\nmodel: offline:x\nmcp:\n  peer:\n"
            f"    url: {there.url}\n    oauth: {{scope: read}}\n"
        )
        done = await asyncio.to_thread(taofold, "login", str(agent))
        assert done.returncode == 0, done.stderr
        assert f"signed in to {there.url}, for read: 6 tools" in done.stderr
        [stored] = all_kept()
        assert stored.tokens is not None
        listed = await asyncio.to_thread(taofold, "list", "--json")
        [row] = json.loads(listed.stdout)
        assert (row["server"], row["scope"], row["renewed"]) == (there.url, "read", True)
        for secret in (stored.tokens["access_token"], stored.tokens["refresh_token"]):
            assert secret not in done.stderr + done.stdout + listed.stdout + listed.stderr
        out = await asyncio.to_thread(taofold, "logout", there.url)
        assert out.returncode == 0, out.stderr
        assert all_kept() == []


@pytest.mark.mcp_real
async def test_an_answer_that_nobody_asked_for_is_not_taken(tmp_path: Path) -> None:
    with authorized("fastmcp3", tmp_path) as there:
        browser = Browser()

        def meddled(url: str) -> None:
            back = str(httpx2.URL(url).params["redirect_uri"])

            async def forge() -> None:
                async with httpx2.AsyncClient() as client:
                    for query in ("?code=evil&state=evil", "?code=evil", "?error=no&state=x"):
                        assert (await client.get(back + query)).status_code == 404
                browser(url)

            browser._tasks.add(asyncio.create_task(forge()))

        assert (await sign_in(place(there), meddled)).asked


async def test_whoever_points_elsewhere_is_not_followed_into_a_private_network() -> None:
    public = "https://93.184.216.34/mcp"
    for url in ("https://10.0.0.5/token", "https://169.254.169.254/", "https://127.0.0.1/x"):
        with pytest.raises(SignInFailed, match="private network"):
            await admit(public, url)
    for server in (public, "http://127.0.0.1:8000/mcp"):
        with pytest.raises(SignInFailed, match="over https"):
            await admit(server, "http://93.184.216.35/token")
        with pytest.raises(SignInFailed, match="private network"):
            await admit(server, "https://169.254.169.254/token")
        with pytest.raises(SignInFailed, match="behind the name"):
            await admit(server, "https://known.example@93.184.216.35/token")
    await admit(public, "https://93.184.216.35/token")
    await admit("http://127.0.0.1:8000/mcp", "http://localhost:9000/token")
    await admit("https://10.0.0.4/mcp", "https://10.0.0.5/token")


class Elsewhere(BaseHTTPRequestHandler):
    """A host that an authorization server has no business to send us to."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(f"{self.command} {self.path}")
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


class Redirecting(Elsewhere):
    """An MCP server with an authorization server, of which `away` redirects to `target`."""

    away: str
    target: str
    changes: dict[str, dict[str, Any]] = {}
    """Redirects of the documents, by their path."""

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        home = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        documents = {
            "/.well-known/oauth-protected-resource": {
                "resource": f"{home}/mcp", "authorization_servers": [home],
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": home, "authorization_endpoint": f"{home}/authorize",
                "token_endpoint": f"{home}/token", "registration_endpoint": f"{home}/register",
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            },
            "/register": {"client_id": "me", "redirect_uris": ["http://127.0.0.1/callback"]},
        }  # fmt: skip
        for document, changes in self.changes.items():
            documents[document] = {**documents[document], **changes}  # type: ignore[dict-item]
        if path.path == self.away:
            self._answer(307, {}, Location=f"{self.target}{path.path}")
        elif path.path == "/authorize":
            asked = parse_qs(path.query)
            back = f"{asked['redirect_uri'][0]}?code=secret&state={asked['state'][0]}"
            self._answer(302, {}, Location=back)
        elif path.path in documents:
            self._answer(201 if path.path == "/register" else 200, documents[path.path])
        else:
            told = f'Bearer resource_metadata="{home}/.well-known/oauth-protected-resource"'
            headers = {"WWW-Authenticate": told} if path.path == "/mcp" else {}
            self._answer(401 if headers else 404, {}, **headers)

    do_POST = do_GET

    def _answer(self, status: int, document: Any, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def listening(handler: type[Elsewhere]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    "away",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
        "/register",
        "/token",
    ],
)
async def test_a_redirect_takes_no_code_and_no_request_to_another_host(away: str) -> None:
    seen: list[str] = []
    with listening(type("Handler", (Elsewhere,), {"seen": seen})) as target:
        fields = {"seen": [], "away": away, "target": target}
        with listening(type("Handler", (Redirecting,), fields)) as home:
            address = ServerAddress("http", url=f"{home}/mcp", oauth=OAuth())
            with pytest.raises(SignInFailed):
                await sign_in(address, Browser(), seconds=180)
    assert seen == []


@contextmanager
def hostile(**changes: dict[str, Any]) -> Iterator[str]:
    """Returns an MCP server whose documents have these `changes`. Its token endpoint fails."""
    there = {
        "resource": "/.well-known/oauth-protected-resource",
        "issuer": "/.well-known/oauth-authorization-server",
    }
    by_path = {there[name]: change for name, change in changes.items()}
    fields = {"seen": [], "away": "", "target": "", "changes": by_path}
    with listening(type("Handler", (Redirecting,), fields)) as home:
        yield f"{home}/mcp"


@pytest.mark.parametrize(
    "page",
    [
        "http://192.168.1.1/reboot",
        "http://169.254.169.254/latest",
        "https://169.254.169.254/latest",
        "https://[fe80::1]/x",
        "http://router.local/reboot",
        "http://127.0.0.1.nip.example/x",
        "https://known.example@127.0.0.1/x",
    ],
)
async def test_a_page_to_open_is_checked_as_a_request_is(page: str) -> None:
    with hostile(issuer={"authorization_endpoint": page}) as url:
        opened: list[str] = []
        with pytest.raises(SignInFailed):
            await sign_in(ServerAddress("http", url=url, oauth=OAuth()), opened.append, seconds=180)
    assert opened == []


async def test_a_token_endpoint_that_fails_opens_no_second_page() -> None:
    with hostile() as url:
        browser = Browser()
        with pytest.raises(SignInFailed, match="Token exchange failed") as failed:
            await sign_in(ServerAddress("http", url=url, oauth=OAuth()), browser, seconds=180)
    assert len(browser.opened) == 1
    assert "mismatch" not in str(failed.value)


async def test_a_resource_with_a_fragment_is_refused() -> None:
    with pytest.raises(SignInFailed, match="fragment"):
        await _matched("https://a.example/mcp#admin")
    await _matched("https://a.example/mcp")


async def _matched(resource: str) -> None:
    client = provider(ServerAddress("http", url=resource.partition("#")[0]), OAuth())
    models = load("mcp.shared.auth")
    fields = {"resource": resource, "authorization_servers": ["https://a.example"]}
    await client._validate_resource_match(models.ProtectedResourceMetadata(**fields))


@pytest.mark.parametrize(
    "query", ["code=a&code=b&state=s", "code=a&state=s&state=s", "iss=a&iss=b"]
)
async def test_an_answer_that_says_something_twice_is_refused(query: str) -> None:
    async def redirected() -> str:
        return f"/callback?{query}"

    with pytest.raises(SignInFailed, match="more than once"):
        await _code_of(redirected)()


def test_a_secret_without_the_place_that_it_is_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="issuer"):
        OAuth(grant="client_credentials", client_id="me", client_secret="${SECRET}")
    with pytest.raises(ConfigError, match="issuer"):
        OAuth(client_id="me", client_secret="${SECRET}")
    with pytest.raises(ConfigError, match="needs client_id"):
        OAuth(grant="client_credentials")


async def test_tokens_that_others_may_read_are_refused(tmp_path: Path) -> None:
    kept = KeptTokens("https://a.example/mcp")
    kept._keep(url=kept.url, tokens={"access_token": "x"})
    kept.path.chmod(0o644)
    with pytest.raises(ConfigError, match="open to others"):
        kept.stored()
    server = McpServer.http(kept.url, oauth=OAuth(), name="s", connect_timeout=5)
    with pytest.raises(ConfigError, match="open to others"):
        await server.open()
