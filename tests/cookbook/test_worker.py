"""docs/cookbook/worker.md"""

import signal
import threading
import time
from collections.abc import Callable

from tests.cookbook.conftest import Reader, answer, call
from tests.road.mind import Asked, Said
from tests.terminal import PATIENCE

ADD = 'python jobs.py add "A report on otters" "A report on foxes"'
save = call("save_report", title="Report", text="They swim.")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def statuses(reader: Reader) -> list[str]:
    return sorted(
        line.split("\t")[1] for line in reader.types("python jobs.py list").stdout.splitlines()
    )


def test_another_worker_continues_what_a_killed_one_left(reader: Reader) -> None:
    reader.opens("worker.md")
    first_reply, killed = threading.Event(), threading.Event()

    def model(asked: Asked) -> Said:
        if not any(turn.calls for turn in asked.turns):
            return save(asked)
        if not killed.is_set():  # both reports are saved, no answer is given yet
            first_reply.set()
            killed.wait(PATIENCE)
        return answer("It is saved.")(asked)

    reader.providers.model = model
    runs = reader.types(ADD).stdout.split()
    assert len(runs) == 2
    worker = reader.starts("python jobs.py work")
    assert first_reply.wait(PATIENCE)
    until(lambda: len(reader.providers.asked) == 4)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    killed.set()
    assert statuses(reader) == ["running", "running"]

    reader.providers.asked.clear()
    other = reader.starts("python jobs.py work")
    until(lambda: statuses(reader) == ["finished", "finished"])
    assert len(reader.providers.asked) == 2  # neither report is written again
    other.terminate()
    out, err = other.communicate(timeout=PATIENCE)
    assert (other.returncode, out) == (0, "working\n"), err
    for run in runs:
        assert (reader.folder / "reports" / f"{run}.md").read_text() == "# Report\n\nThey swim.\n"


def test_without_a_key(reader: Reader) -> None:
    reader.opens("worker.md")
    reader.environment["TAOFOLD_MODEL"] = "test:tools"
    (run, _) = reader.types(ADD).stdout.split()
    worker = reader.starts("python jobs.py work")
    until(lambda: statuses(reader) == ["finished", "finished"])
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert (reader.folder / "reports" / f"{run}.md").read_text() == "# a\n\na\n"
