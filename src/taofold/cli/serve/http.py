"""Runs the processes of `taofold serve` and `taofold work`.

`commands` has the commands and options; `taofold.server` is the server.
"""

import asyncio
import logging
import signal
import socket
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from taofold.agent import Agent
from taofold.cli.output import fail, invocation, say
from taofold.cli.project import home, open_store, operator_policy
from taofold.cli.runs.evidence import own_keys
from taofold.cli.serve.credentials import announce_accepted, session_place, token_place
from taofold.core.errors import ConfigError, LogAway
from taofold.core.text import times
from taofold.log.log import Log
from taofold.log.open import journal_beside
from taofold.log.patterns.stores import registry_beside
from taofold.network import is_loopback
from taofold.server import Server, Settings, create_app
from taofold.server.auth import LocalToken, TokenStore
from taofold.server.catalog import Rebuild
from taofold.server.uvicorn_server import server_for


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `taofold serve`."""

    agents: Mapping[str, Agent[Any, Any]]
    host: str
    port: int
    tokens: Path | None
    """A file of tokens; None: the log's database or this user's state folder."""
    hosts: frozenset[str]
    origins: frozenset[str]
    most_runs: int
    engine: str
    approve_seconds: float
    forks: Path | None
    rate: float
    browser: bool
    rebuild: Rebuild


def serve(plan: ServeOptions) -> None:
    """Serves until it is stopped.

    Raises:
        ConfigError: The server must not be opened with these options.
    """
    log = _opened_log()
    tokens, local = TokenStore(token_place(plan.tokens, log)), LocalToken.of_user()
    tokens.all()  # raises now if the file cannot be read
    # Made now, so that an unwritable folder is reported at the start.
    local.value()
    here = is_loopback(plan.host)
    if not here and not tokens.configured:
        raise ConfigError(
            f"{plan.host} is reachable from other machines, but there are no tokens: add one with "
            f"`{invocation()} serve tokens add NAME --role ROLE`, or serve 127.0.0.1",
            path="--host",
        )
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    # Bound before the server is built, so that a used port gives an error message.
    listener = _listener(plan.host, plan.port)
    port = listener.getsockname()[1]
    # A wildcard address is no valid Host of a client.
    named = frozenset[str]() if plan.host in ("0.0.0.0", "::") else frozenset({plan.host.lower()})  # noqa: S104 - compared
    server = Server(
        log,
        plan.agents,
        settings=Settings(
            policy=operator_policy(),
            evidence_keys=tuple(own_keys()),
            hosts=plan.hosts | named,
            origins=plan.origins,
            most_runs=plan.most_runs,
            engine=plan.engine,
            approve_seconds=plan.approve_seconds,
            forks=plan.forks,
            requests_per_s=plan.rate,
            requests_burst=4 * plan.rate,
        ),
        tokens=tokens,
        local=local,
        folder=home(),
        rebuild=plan.rebuild,
        journal=journal_beside(log),
        registry=registry_beside(log),
        sessions=session_place(log),
    )
    uvicorn = server_for(create_app(server), plan.host, port)

    async def work() -> None:
        # The port already listens, so the printed link works at once.
        _announce(server, plan, port)
        try:
            await uvicorn.serve(sockets=[listener])
        finally:
            await log.close()

    asyncio.run(work())


def work(
    agents: Mapping[str, Agent[Any, Any]],
    most_runs: int,
    engine: str,
    stop_s: float,
    rebuild: Rebuild,
    forks: Path | None = None,
) -> None:
    """Drives runs of the log until it is stopped, then waits until each run can be handed over."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log = _opened_log()
    server = Server(
        log,
        agents,
        settings=Settings(
            policy=operator_policy(),
            most_runs=most_runs,
            engine=engine,
            stop_s=stop_s,
            forks=forks,
        ),
        tokens=TokenStore(token_place(None, log)),
        rebuild=rebuild,
    )

    async def until_told() -> None:
        stop = asyncio.Event()
        # Not as an exception: runs reach a place where they can wait, then the process ends.
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await server.start()
        say(
            f"working for {', '.join(server.catalog.names)}; "
            f"at most {times(most_runs, 'run')} at once"
        )
        await stop.wait()
        say("stopping: other workers continue the open runs")
        await server.stop()
        await log.close()

    asyncio.run(until_told())


def _opened_log() -> Log:
    """Opens the log; waits until its database is reachable, as machines start in any order."""
    delay_s, told = 0.5, False
    while True:
        try:
            return open_store(create=True)
        except LogAway as error:
            if not told:
                say(f"{error}; waiting for it")
            told = True
        sleep(delay_s)
        delay_s = min(2 * delay_s, 10.0)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        fail(f"cannot listen at {host}:{port}: {error.strerror}; choose another --port")


def _announce(server: Server, plan: ServeOptions, port: int) -> None:
    name = "127.0.0.1" if plan.host in ("0.0.0.0", "::") else plan.host  # noqa: S104 - compared
    base = f"http://{f'[{name}]' if ':' in name else name}:{port}"
    link = f"{base}/signin/{server.signin.code()}"
    say(f"serving {', '.join(server.catalog.names)} at {base}")
    announce_accepted(server.tokens, server.signin)
    say(f"sign in (once, within 10 minutes): {link}")
    # On curl's command line other users of the machine could read the token.
    header = f"{invocation()} serve tokens local --header"
    say(f"programs on this machine: {header} | curl -H @- {base}/me")
    if plan.browser:
        webbrowser.open(link)
