"""Command `taofold doctor`: reports installation and configuration, one finding for each part.

`model_probe` tests the abilities of a model.
"""

import os
import platform
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.findings import Finding
from taofold.cli.output import UNREACHED, give, give_json, invocation, leaves, say
from taofold.core.text import times

if TYPE_CHECKING:
    from taofold.models.prices import Price

_LOCAL: Final = {
    "Ollama": "http://127.0.0.1:11434/api/version",
    "llama.cpp": "http://127.0.0.1:8080/health",
}
_TIMEOUT_S: Final = 0.5
_MARKS: Final = {True: "ok  ", False: "FAIL", None: "-   "}


def doctor(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="PROVIDER:NAME of a model to test; makes real calls."),
    ] = "",
    json: options.Json = False,
    prices: Annotated[
        bool,
        typer.Option("--prices", help="Show the age of the price table and announced changes."),
    ] = False,
) -> None:
    """Check the installation and configuration. With MODEL, test its abilities and store them.

    Commands of agents are "contained" if bubblewrap works here: they see only the work root and no
    network. Otherwise they are "not contained": they have your rights and always need approval.
    """
    from taofold.cli.model_probe import examine

    findings = _prices() if prices else examine(model) if model else _here()
    if json:
        give_json([{"what": f.what, "good": f.good, "said": f.text} for f in findings])
    else:
        for finding in findings:
            give(f"{_MARKS[finding.good]}  {finding.what:<16} {finding.text}")
    if any(finding.good is False for finding in findings):
        raise typer.Exit(UNREACHED)
    if not model and not json and not prices:
        say(f"test a model with: {invocation()} doctor PROVIDER:NAME")


_OLD_DAYS: Final = 30


def _prices() -> list[Finding]:
    from datetime import UTC, datetime
    from importlib import metadata

    from taofold.models.prices import table_state

    today = datetime.now(UTC).date()
    state = table_state(today)
    age = (today - state.as_of).days
    text = f"of {state.as_of.isoformat()}, {age} days old ({state.source})"
    newer = "" if age <= _OLD_DAYS else "; update it: pip install -U 'taofold[prices]'"
    try:
        library = f"genai-prices {metadata.version('genai-prices')} is used instead"
    except metadata.PackageNotFoundError:
        library = "genai-prices is not installed: the table above is used"
    return [
        Finding("prices", age <= _OLD_DAYS or None, text + newer),
        Finding("library", None, library),
        *[
            Finding("change", None, f"{model}: {_rates(price)} from {since}")
            for model, since, price in state.changes
        ],
    ]


def _rates(price: "Price") -> str:
    return f"{price.rates.input:g} $ in, {price.rates.output:g} $ out per million tokens"


def _here() -> list[Finding]:
    python = f"{platform.python_version()} ({sys.executable})"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return [
        Finding("python", sys.version_info >= (3, 11), python),
        Finding("platform", True, system),
        _store(),
        _configuration(),
        _learning(),
        _policy(),
        _containment(),
        _uplink(),
        _keys(),
        *[_server(name, url) for name, url in _LOCAL.items()],
    ]


def _store() -> Finding:
    import asyncio

    from taofold.cli.project import FILE, home, log_address, open_store
    from taofold.core.errors import TaofoldError
    from taofold.log.sqlite.open import faults_in

    try:
        path, shared = home() / FILE, log_address()
        if not shared and not path.exists():
            return Finding("store", None, f"{path} (not created yet)")
        log = open_store()

        async def count() -> int:
            counted = await log.count()
            await log.close()
            return sum(counted.values())

        runs = asyncio.run(count())
        if shared:
            return Finding("store", True, f"{log.identity}: {times(runs, 'run')}")
        # SQLite's integrity check exists only for files.
        broken = faults_in(path)
    except TaofoldError as error:
        return Finding("store", False, str(error))
    summary = f"{path}: {times(runs, 'run')}, {path.stat().st_size / 1e6:.1f} MB"
    return Finding("store", not broken, f"{summary}, {'; '.join(broken[:3]) or 'healthy'}")


def _configuration() -> Finding:
    from taofold.cli.project import config, config_path

    try:
        path = config_path()
        model = config().model or "no default model"
    except Exception as error:  # noqa: BLE001 - a report goes on
        return Finding("configuration", False, _faults(error))
    return Finding("configuration", True, f"{path or 'none'}, {model}")


def _learning() -> Finding:
    """Reports the settings of learning. A fault in their files would stop the next loop."""
    from taofold.cli.project import learning_files, learning_settings

    try:
        settings = learning_settings()
        files = ", ".join([str(path) for path in learning_files() if path.is_file()])
    except Exception as error:  # noqa: BLE001 - a report goes on
        return Finding("learning", False, _faults(error))
    extraction = "on" if settings.extraction.enabled else "off"
    injection = "on" if settings.injection.enabled else "off"
    where = files or "no file: defaults"
    return Finding("learning", True, f"extraction {extraction}, injection {injection} ({where})")


def _policy() -> Finding:
    from taofold.cli.project import operator_policy
    from taofold.reserved_places import operator_folder

    path = operator_folder() / "policy.yaml"
    try:
        policy = operator_policy()
    except Exception as error:  # noqa: BLE001 - a report goes on
        return Finding("policy", False, _faults(error))
    there = "" if path.exists() else " (no file: defaults)"
    return Finding("policy", True, f"{path}{there}, {policy.autonomy}")


def _faults(error: Exception) -> str:
    return "; ".join(str(fault) for fault in leaves(error))


def _containment() -> Finding:
    from taofold.tools.containment import why_not

    reason = why_not()
    if reason:
        return Finding(
            "commands", None, f"not contained: {reason}; they have your rights and need approval"
        )
    return Finding("commands", True, "contained by bubblewrap: work root only, no network")


def _uplink() -> Finding:
    """Reports the network of commands that may use one."""
    from taofold.tools import container_network, containment

    reason = containment.why_not() or container_network.why_not()
    if reason:
        shared = f"this machine's network: {reason}; {container_network.INSTALL}"
        return Finding("their network", None, f"if allowed, {shared}")
    return Finding("their network", True, "if allowed, a separate one without loopback")


def _keys() -> Finding:
    """Reports the names of variables that hold keys, never their values."""
    from taofold.models.presets import key_names

    variables = sorted(name for name in key_names() if os.environ.get(name, "").strip())
    listed = ", ".join(variables) or "none (offline:repair and local servers need none)"
    return Finding("keys", True if variables else None, listed)


def _server(name: str, url: str) -> Finding:
    from taofold import network

    try:
        # Without proxies, because HTTP_PROXY would redirect loopback addresses.
        with network.send(url, timeout=_TIMEOUT_S, proxies=False) as answer:
            answer.read(1000)
    except (OSError, ValueError) as error:
        reason: Any = getattr(error, "reason", error)
        return Finding(name, None, f"not reachable at {url.split('/')[2]} ({reason})")
    return Finding(name, True, f"reachable at {url.split('/')[2]}")
