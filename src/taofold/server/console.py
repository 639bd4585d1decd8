"""The web console: its files, and JSON for its pages: runs with usage, costs, eval reports.

The files are read once, from the package. A requested name is looked up among them and never
becomes a path. The usage of ended runs is cached in this process.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from taofold.core.state import ENDED, fold
from taofold.evals.report_files import stored_report, stored_reports
from taofold.log.log import Log
from taofold.server.api import mcp_signins, runs, schemas
from taofold.server.api.schemas import RunsQuery
from taofold.server.endpoint import ApiCall, Problem, Routes

routes: Final = Routes("console")

MEDIA: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
NEWEST: Final = 200
"""Maximum runs in sums."""
REMEMBERED: Final = 2000
"""Maximum ended runs whose figures are cached; they do not change."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the console."""

    content: bytes
    media: str
    etag: str


def load(folder: Traversable, prefix: str = "") -> dict[str, File]:
    """Returns the files below `folder`, by name."""
    loaded: dict[str, File] = {}
    for resource in folder.iterdir():
        if resource.is_dir():
            loaded |= load(resource, f"{prefix}{resource.name}/")
            continue
        media = MEDIA.get(resource.name.rpartition(".")[2])
        if media is not None:
            content = resource.read_bytes()
            etag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
            loaded[prefix + resource.name] = File(content, media, etag)
    return loaded


FILES: Final = load(files("taofold.server") / "static")


class Figures(schemas.RunView, title="Figures"):
    """A run in a list, with its usage."""

    steps: int
    model_calls: int
    tool_calls: int
    tokens: int
    usd: float | None
    seconds: float


class Returned(BaseModel):
    """Parameters of an authorization server; only the page reads them."""

    model_config = ConfigDict(extra="ignore")


class Page(schemas.ResponseBody):
    """A page of runs, newest first."""

    items: list[Figures]
    next: str | None


class Totals(schemas.ResponseBody):
    """Sums over the caller's newest runs, without child runs."""

    runs: int
    measured: int
    statuses: dict[str, int]
    model_calls: int
    tool_calls: int
    tokens: int
    usd: float
    unpriced: int = 0
    """Tokens whose price is unknown: `usd` leaves them out."""


class DayCost(schemas.ResponseBody):
    """Usage of the runs that began on one day (UTC)."""

    day: str
    runs: int
    tokens: int
    usd: float
    unpriced: int = 0
    """Tokens whose price is unknown: `usd` leaves them out."""


class ModelCost(schemas.ResponseBody):
    """Usage of one model, over the same runs."""

    model: str
    runs: int
    tokens: int
    usd: float
    unpriced: int = 0
    """Tokens whose price is unknown: `usd` leaves them out."""


class Costs(schemas.ResponseBody):
    """Costs of the caller's newest runs, by day (the oldest first) and by model."""

    measured: int
    days: list[DayCost]
    models: list[ModelCost]


class Evals(schemas.ResponseBody):
    """Eval reports of this project, the newest first."""

    items: list[dict[str, Any]]


class EvalReport(schemas.ResponseBody):
    """One eval: its reports, with every trial."""

    id: str
    at: str
    name: str
    reports: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]


@routes.get("/", right="public", page=True, hidden=True)
@routes.get("/signin/{code}", right="public", page=True, hidden=True)
@routes.get(mcp_signins.PAGE, right="public", query=Returned, page=True, hidden=True)
async def index(call: ApiCall) -> Response:
    """Returns the page."""
    return _answer(call, FILES["index.html"])


@routes.get("/static/{file:path}", right="public", page=True, hidden=True)
async def static(call: ApiCall) -> Response:
    """Returns a file of the page.

    Raises:
        Problem: 404, there is no such file.
    """
    file = FILES.get(call.path["file"])
    if file is None:
        raise Problem(404, "not_found", "the console has no such file")
    return _answer(call, file)


def _answer(call: ApiCall, file: File) -> Response:
    # `no-cache` means revalidate each time, so that no old script uses a new API.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if call.request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media, headers=headers)


@routes.get("/console/runs", right="read", query=RunsQuery)
async def page(call: ApiCall) -> Page:
    """Lists your runs with their usage."""
    listed = await runs.page(call)
    items = await _measured(call.server.log, [run for run in listed.items if not run.parent])
    return Page(items=items, next=listed.next)


@routes.get("/console/totals", right="read")
async def totals(call: ApiCall) -> Totals:
    """Returns the total usage of your runs."""
    server = call.server
    statuses = await server.log.count(principal=call.principal.id)
    items = await _measured(server.log, await _newest(call))
    return Totals(
        runs=sum(statuses.values()),
        measured=len(items),
        statuses=statuses,
        model_calls=sum(run.model_calls for run in items),
        tool_calls=sum(run.tool_calls for run in items),
        tokens=sum(run.tokens for run in items),
        usd=sum(run.usd or 0.0 for run in items),
        unpriced=sum(run.tokens for run in items if run.usd is None),
    )


async def _newest(call: ApiCall) -> list[schemas.RunView]:
    """Returns the caller's own newest runs, without child runs."""
    listed = await runs.page(_with(call, RunsQuery.model_validate({"limit": NEWEST})))
    return [run for run in listed.items if not run.parent and run.principal == call.principal.id]


@routes.get("/console/costs", right="read")
async def costs(call: ApiCall) -> Costs:
    """Returns the costs of your newest runs, by day and by model."""
    own = await _newest(call)
    days: dict[str, DayCost] = {}
    models: dict[str, ModelCost] = {}
    for run in own:
        measured = await _measure(call.server.log, run)
        name = run.created_at[:10]
        day = days.setdefault(name, DayCost(day=name, runs=0, tokens=0, usd=0.0))
        _add(day, measured.figures["tokens"], measured.figures["usd"])
        for model, (tokens, usd) in measured.models.items():
            entry = models.setdefault(model, ModelCost(model=model, runs=0, tokens=0, usd=0.0))
            _add(entry, tokens, usd)
    return Costs(
        measured=len(own),
        days=[days[name] for name in sorted(days)],
        models=sorted(models.values(), key=lambda entry: -entry.usd),
    )


def _add(to: DayCost | ModelCost, tokens: int, usd: float | None) -> None:
    to.runs += 1
    to.tokens += tokens
    if usd is None:
        to.unpriced += tokens
    else:
        to.usd += usd


@routes.get("/console/evals", right="learning")
async def evals(call: ApiCall) -> Evals:
    """Lists eval reports, the newest first."""
    folder = call.server.folder
    return Evals(items=stored_reports(folder) if folder is not None else [])


@routes.get("/console/evals/{eval}", right="learning", errors=(404,))
async def eval_report(call: ApiCall) -> EvalReport:
    """Returns an eval report with its trials.

    Raises:
        Problem: 404, there is no such eval.
    """
    folder = call.server.folder
    document = stored_report(folder, call.path["eval"]) if folder is not None else None
    if document is None:
        raise Problem(404, "not_found", "there is no such eval")
    return EvalReport(**document)


def _with(call: ApiCall, query: Any) -> ApiCall:
    return ApiCall(call.server, call.request, call.principal, call.path, query, None)


# For the whole process; `id(log)` distinguishes several servers in one process (tests).
_known: Final[OrderedDict[tuple[int, str, int], "Measured"]] = OrderedDict()


class Measured(NamedTuple):
    """The usage of a run, in total and by model."""

    figures: dict[str, Any]
    models: dict[str, tuple[int, float | None]]
    """Tokens and US dollars by model; None if the price is unknown."""


async def _measured(log: Log, runs: Sequence[schemas.RunView]) -> list[Figures]:
    return [Figures(**run.model_dump(), **(await _measure(log, run)).figures) for run in runs]


async def _measure(log: Log, run: schemas.RunView) -> Measured:
    """Returns the usage of a run; cached if it has ended."""
    # The number of events is part of the key, because a resumed run has other figures.
    key = (id(log), run.id, run.events)
    remembered = _known.get(key)
    if remembered is not None:
        return remembered
    state = fold(await log.read(run.id))
    figures = {
        "steps": len(state.steps),
        "model_calls": state.model_calls + state.child_model_calls,
        "tool_calls": state.tool_calls + state.child_tool_calls,
        "tokens": state.usage.tokens,
        "usd": state.usage.usd,
        "seconds": state.active_ms / 1000,
    }
    by_model = state.usage_by_model.items()
    measured = Measured(figures, {name: (usage.tokens, usage.usd) for name, usage in by_model})
    # A running run would add a new key at each event.
    if run.status in ENDED:
        _known[key] = measured
        if len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return measured
