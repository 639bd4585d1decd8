"""A verifier in JavaScript, written from docs/evidence.md, gives the same verdicts as ours."""

import asyncio
import random
from pathlib import Path

from taofold.core.events import Noted, Record
from taofold.evidence.verifier import NO_KEY, OK, UNSIGNED, verify
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.memory import MemoryLog
from taofold.log.signed import SignedLog, chain_of
from tests.evidence.forgery import kit_records, new_key, store
from tests.evidence.script import codes
from tests.evidence.test_tampering import KEY, export_of, forgeries, misplaced, rechained, with_blob
from tests.prerequisites import NODE

pytestmark = NODE.mark


def verdicts(folder: Path, texts: list[str], key: bytes = KEY.public) -> list[int]:
    return codes(folder, [text.encode() for text in texts], key)


def exports() -> list[str]:
    async def others() -> list[str]:
        log = SignedLog(MemoryLog(), KEY)
        records = kit_records("steered", "é\U0001f600")
        await store(log, records)
        withheld = dumps_chain(await chain_of(log, records[0].run), withheld=[0, 3])
        more = Record(records[0].run, len(records), records[-1].at, Noted(key="1", kind="x"))
        await log.append(records[0].run, 1, [more])
        return [withheld, dumps_chain(await chain_of(log, records[0].run))]

    plain = export_of("approval_edited", signed=True)
    without = "\n".join([it for it in plain.split("\n") if not it.startswith('{"evidence"')])
    return [plain, without, export_of("plan", signed=False), *asyncio.run(others())]


def test_both_agree_on_untouched_exports(tmp_path: Path) -> None:
    texts = exports()
    ours = [verify(text, [KEY.public]).code for text in texts]
    assert set(ours) == {OK, UNSIGNED}
    assert verdicts(tmp_path, texts) == ours
    foreign = new_key().public
    assert verdicts(tmp_path, texts, foreign) == [verify(it, [foreign]).code for it in texts]
    assert verdicts(tmp_path, texts, foreign)[0] == NO_KEY


def test_both_agree_on_forgeries(tmp_path: Path) -> None:
    """A sample, since each is a file, and all of those with links that were computed again."""
    text = exports()[0]
    found = list(forgeries(text))
    sample = [forged for _, forged in random.Random(3).sample(found, 120)]
    of_events = [forged for what, forged in found if "('event', " in what]
    sample += [rechained(forged) for forged in of_events[::40]]
    sample += [with_blob(), *misplaced(with_blob())]
    ours = [verify(each, [KEY.public]).code for each in sample]
    assert OK in ours
    assert verdicts(tmp_path, sample) == ours
