"""The deployment page: its unit starts a server that this program has, and stops it in time."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main

from taofold.cli.app import app
from taofold.server import Settings

PAGE = (Path(__file__).parent.parent / "docs" / "deploy.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_unit_starts_the_program_with_options_that_it_has() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block("ini"))
    service = unit["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "taofold"
    assert command == "serve"
    group: Any = typer.main.get_command(app)
    serve = group.commands["serve"].commands["start"]
    options = {name for parameter in serve.params for name in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= options
    assert int(service["TimeoutStopSec"]) > Settings().stop_s
    assert service["Restart"] == "always"


@pytest.mark.skipif(not shutil.which("nginx"), reason="no nginx: apt-get install nginx-light")
def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^ *ssl_cert.*\n", "", block("nginx")).replace("443 ssl", "8443")
    file = tmp_path / "nginx.conf"
    file.write_text(f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {text} }}")
    done = subprocess.run(
        ["nginx", "-t", "-c", str(file), "-e", str(tmp_path / "errors")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
