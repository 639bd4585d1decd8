"""Measures the cost of tracing per span: `python -m bench.bridges.tracing`.

The same scripted run (a tool call per step, two spans) with an ordinary log and with a traced
one, alternately, the spans going over HTTP to a server in another process. Two figures:

* in the way: processor time of the run's own thread, until its result is there;
* in all: processor time of the whole process, with the thread that translates, encodes and sends.

The machine is rarely quiet, and these are small differences of large figures. So each is
reported twice: the median of the differences between neighbours, and the difference of the least
disturbed rounds of each kind. The budget, 50 µs a span, is for a third figure that needs no
difference: processor time within the calls by which a run reports its spans (the median round).
"""

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from taofold import Agent, Limits, MemoryLog, tool
from taofold.policy.redaction import Redactor
from taofold.telemetry import otel
from taofold.telemetry.attributes import attributes
from taofold.telemetry.projection import SpanProjection, spans_of
from taofold.telemetry.prompt import Disclosure
from taofold.testing import ScriptedModel

MOST = 50.0
"""Microseconds of a run's own thread per span."""
SINK = """
import http.server
class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@tool(effect="read")
def look(place: int) -> str:
    """Look at a place."""
    return f"at {place} there is a number: {place * 37}"


def step(thought: str, kind: str, tool_: str, parameters: dict) -> dict:
    """A reply that breaks no rule: each violation would be a mark of its own."""
    action = {"tool": tool_, "parameters": parameters, "rationale": "it is next"}
    return {"thought": thought, "thought_type": kind, "action": action}


def script(steps: int) -> list[str]:
    said = [step(f"look at place_{n}", "reasoning", "look", {"place": n}) for n in range(steps)]
    end = step("done", "synthesis", "finish", {"answer": "done"})
    return [json.dumps(one) for one in [*said, end]]


def once(steps: int, log) -> tuple[float, float, int]:
    """Seconds of this thread until the result, of the process until all is sent, and spans."""
    agent = Agent(
        ScriptedModel(script(steps), name="bench:model"), tools=[look], log=log,
        limits=Limits(steps=steps + 2, model_calls=steps + 2, tool_calls=steps + 2),
    )  # fmt: skip

    async def run() -> tuple[float, float, int]:
        begin, processor = time.thread_time(), time.process_time()
        result = await agent.run("look around")
        own = time.thread_time() - begin
        await log.close()
        assert result.success, result
        return own, time.process_time() - processor, len(spans_of(result.records))

    return asyncio.run(run())


class Clock:
    """Processor time of a thread within some calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, call):
        def timed(*arguments, **options):
            begin = time.thread_time()
            try:
                return call(*arguments, **options)
            finally:
                self.seconds += time.thread_time() - begin

        return timed


def measure(steps: int, rounds: int, url: str, content: bool) -> dict[str, float]:
    once(steps, MemoryLog())
    pairs, within = [], []
    for _ in range(rounds):
        gc.collect()
        plain = once(steps, MemoryLog())
        gc.collect()
        log = otel.traced(MemoryLog(), endpoint=url, content=content)
        clock = Clock()
        for name in ("_export", "on_request"):
            setattr(log, name, clock.around(getattr(log, name)))
        traced = once(steps, log)
        pairs.append((plain, traced))
        within.append(clock.seconds / traced[2])
    spans = pairs[0][1][2]
    figures: dict[str, float] = {"spans": spans, "within": statistics.median(within) * 1e6}
    for index, name in enumerate(("in the way", "in all")):
        differences = [traced[index] - plain[index] for plain, traced in pairs]
        least = min(t[index] for _, t in pairs) - min(p[index] for p, _ in pairs)
        figures[name] = statistics.median(differences) / spans * 1e6
        figures[f"{name}, least"] = least / spans * 1e6
    return figures


def parts(steps: int, rounds: int) -> dict[str, float]:
    """Returns the parts of the time, in µs per span: the best of several rounds."""
    agent = Agent(
        ScriptedModel(script(steps), name="bench:model"), tools=[look],
        limits=Limits(steps=steps + 2, model_calls=steps + 2, tool_calls=steps + 2),
    )  # fmt: skip
    records = agent.run_sync("look around").records
    spans = spans_of(records)
    plain, full = otel.OtelTranslation(), otel.OtelTranslation(content=True)
    content = Disclosure(Redactor())

    def best(work) -> float:
        times = []
        for _ in range(rounds):
            begin = time.thread_time()
            work()
            times.append(time.thread_time() - begin)
        return min(times) / len(spans) * 1e6

    def project() -> None:
        projection = SpanProjection("x")
        for record in records:
            projection.feed(record)

    return {
        "project": best(project),
        "attributes": best(lambda: [attributes(one) for one in spans]),
        "attributes with content": best(lambda: [attributes(one, content) for one in spans]),
        "translate": best(lambda: [plain(one) for one in spans]),
        "translate with content": best(lambda: [full(one) for one in spans]),
        "encode": best(lambda: encode_spans([plain(one) for one in spans])),
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--rounds", type=int, default=15)
    said = options.parse_args()
    sink = subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
    good = True
    try:
        assert sink.stdout is not None
        url = f"http://127.0.0.1:{int(sink.stdout.readline())}"
        for content in (False, True):
            found = measure(said.steps, said.rounds, url, content)
            what = "with content" if content else "no content"
            print(
                f"{what:14} {found['spans']} spans: telling of one {found['within']:5.1f} µs; "
                f"in the way {found['in the way']:6.1f} µs, "
                f"in all {found['in all']:6.1f} µs per span; least disturbed "
                f"{found['in the way, least']:6.1f} and {found['in all, least']:6.1f} µs"
            )
            good = good and found["within"] <= MOST
    finally:
        sink.kill()
        sink.wait()
    for name, value in parts(said.steps, said.rounds).items():
        print(f"  {name:26} {value:6.1f} µs")
    print("within the budget" if good else f"OVER the budget of {MOST:g} µs")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
