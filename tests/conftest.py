"""What all tests share."""

import os
import signal
from collections import Counter

import pytest

# Started in the background of a script, we are born deaf to Ctrl-C, and so is every process of a
# test that sends one (POSIX shells, `nohup`).
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def no_configuration_of_the_developers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Profiles and policies of whoever runs the tests must not change their outcome."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Each reason for skipping once, with how often: what would have to be installed."""
    reports = terminalreporter.getreports("skipped")
    reasons = Counter([report.longrepr[2].removeprefix("Skipped: ") for report in reports])
    if reasons:
        terminalreporter.section("not run here")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")
