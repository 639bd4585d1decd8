"""Fixtures of all tests."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from taofold.trusted_code import OUTSIDE
from tests import everylog, postgres
from tests.engine import restate

# Started in the background of a script, we are born deaf to Ctrl-C, and so is every process of a
# test that sends one (POSIX shells, `nohup`).
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# An example's duration depends on the machine's load, not on the program.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--log postgres`: see `tests.everylog`."""
    parser.addoption(
        "--log", choices=everylog.KINDS, default=os.environ.get("TAOFOLD_TEST_LOG", "memory"),
        help="the log that tests get which make one in memory",
    )  # fmt: skip
    parser.addoption(
        "--road", choices=("some", "all"), default="some",
        help="how many rows of the road matrix are run: each fortieth, or all of them",
    )  # fmt: skip


@pytest.fixture(scope="session")
def substitute(request: pytest.FixtureRequest) -> everylog.Substitute:
    return everylog.Substitute(request.config.getoption("--log"))


@pytest.fixture(autouse=True)
def log_of_this_kind(substitute: everylog.Substitute) -> Iterator[None]:
    """Nothing, unless another log than memory was asked for."""
    if substitute.kind == "memory":
        yield
        return
    with substitute.installed():
        yield


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def no_configuration_of_the_developers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Isolates the tests from profiles, policies and secrets of the developer."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True, scope="session")
def projects_need_no_plugins() -> None:
    """A pytest that a test starts would load every plugin of this environment, for 7 seconds."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"


@pytest.fixture(autouse=True)
def imports_of_the_tests_stay_open() -> Iterator[None]:
    """A command line run inside this process seals its imports, for as long as a process lives."""
    path, finders, roots = [*sys.path], [*sys.meta_path], {*OUTSIDE.roots}
    yield
    sys.path[:] = path
    sys.meta_path[:] = finders
    OUTSIDE.roots.clear()
    OUTSIDE.roots.update(roots)


def pytest_sessionfinish() -> None:
    """Servers were started for the tests that need one."""
    postgres.stop()
    restate.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the failures of tests that passed when run again, and each reason for a skip once."""
    passed = {report.nodeid for report in terminalreporter.getreports("passed")}
    for report in terminalreporter.getreports("rerun"):
        if report.nodeid not in passed:
            continue
        terminalreporter.section(f"failed at first: {report.nodeid}", sep="_")
        terminalreporter.line(report.longreprtext)
    reports = terminalreporter.getreports("skipped")
    reasons = Counter([report.longrepr[2].removeprefix("Skipped: ") for report in reports])
    if reasons:
        terminalreporter.section("not run here")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")
