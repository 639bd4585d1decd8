"""Real coding agents in a loop of ours, contained, against a provider of ours.

    npm i @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai
    uv pip install aider-chat
    PATH=…/node_modules/.bin:$PATH sudo -E python bench/coding_agents/run.py [NAME …]

Needs root, bubblewrap and pasta: a container reaches nothing that listens on this machine's own
addresses, so the provider runs in a network namespace beside it. Prints a line for each agent, and
ends with 1 if one of them does not complete.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

HERE: Final = Path(__file__).parent
ADDRESS: Final = "10.77.0.2"
PORT: Final = 8915
URL: Final = f"http://{ADDRESS}:{PORT}"
KEY: Final = "sk-not-a-real-key-0123456789"
NAMES: Final = {
    "claude": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "aider": "aider --model openai/gpt-5",
}
VARIABLES: Final = {
    "ANTHROPIC_BASE_URL": URL,
    "ANTHROPIC_API_KEY": KEY,
    "CODEX_API_KEY": KEY,
    "GEMINI_API_KEY": KEY,
    "GOOGLE_GEMINI_BASE_URL": URL,
    "OPENAI_API_BASE": f"{URL}/v1",
    "OPENAI_API_KEY": KEY,
}
SETTINGS: Final[Mapping[str, str]] = {
    ".codex/config.toml": (
        'model_provider="bench"\n[model_providers.bench]\nname="bench"\n'
        f'base_url="{URL}/v1"\nwire_api="responses"\nenv_key="CODEX_API_KEY"\n'
    ),
    ".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}),
    ".config/opencode/opencode.json": json.dumps(
        {
            "model": "bench/m",
            "provider": {
                "bench": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{URL}/v1", "apiKey": KEY},
                    "models": {"m": {"name": "m", "cost": {"input": 1, "output": 2}}},
                }
            },
        }
    ),
}
FILES: Final[Mapping[str, str]] = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
NETWORK: Final = (
    "ip netns add bench",
    "ip link add bench0 type veth peer name bench1",
    "ip link set bench1 netns bench",
    "ip addr add 10.77.0.1/24 dev bench0",
    "ip link set bench0 up",
    f"ip netns exec bench ip addr add {ADDRESS}/24 dev bench1",
    "ip netns exec bench ip link set bench1 up",
)


def called(command: str, folder: Path | None = None) -> None:
    """Run a command that must succeed."""
    subprocess.run(command.split(), check=True, cwd=folder)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """The folder with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tried(name: str, folder: Path) -> bool:
    """Drive one agent until the gates pass, and print what came of it."""
    if shutil.which(name) is None:
        print(f"{name:10} not installed")
        return True
    project = written(folder / name, FILES)
    for words in ("init -q", "add -A", "-c user.name=b -c user.email=b@b commit -qm first"):
        called(f"git {words}", project)
    variables = {**os.environ, **VARIABLES, "HOME": str(folder / "home")}
    command = [sys.executable, "-m", "taofold", "loop", "Make the tests pass", "--json"]
    command += ["-c", "python -m pytest -q", "--max-iterations", "2", "--agent", NAMES[name]]
    begun = time.monotonic()
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    repaired = "a + b" in (project / "calc.py").read_text()
    usd = "unknown" if told.get("usd") is None else f"${told['usd']:.5f}"
    print(
        f"{name:10} {told.get('status', done.stderr[-300:]):10} repaired={repaired} "
        f"iterations={told.get('iterations')} tokens={told.get('tokens')} {usd} "
        f"{time.monotonic() - begun:.1f} s"
    )
    return bool(told.get("status") == "completed" and repaired)


def main(names: list[str]) -> int:
    """Make the network, start the provider, and try each agent."""
    provider = [sys.executable, str(HERE / "provider.py"), str(PORT), "sed -i s/-/+/ calc.py"]
    for command in NETWORK:
        called(command)
    running = subprocess.Popen(["ip", "netns", "exec", "bench", *provider])
    try:
        time.sleep(1)
        with TemporaryDirectory(prefix="coding-agents-") as folder:
            written(Path(folder) / "home", SETTINGS)
            results = [tried(name, Path(folder)) for name in names or NAMES]
        return int(not all(results))
    finally:
        running.kill()
        called("ip netns delete bench")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
