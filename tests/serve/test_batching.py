"""The queue in front of a model."""

import asyncio
import threading
import time
from dataclasses import dataclass

import pytest

from regard.serve.batching import Batcher
from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.responses import submit_stream, wait
from regard.stopping import check_wanted
from regard.task import Text, TextOperation


@dataclass(frozen=True)
class Note(TextOperation):
    """Notes which texts came together."""

    def run(self, predictor, texts, *, record=(), progress=False):
        predictor.append([work.size for work in texts])
        return [work.text for work in texts]


def test_texts_of_similar_length_share_a_batch():
    """The oldest text comes first, and takes those with it that are nearest to it in length."""
    batches = []

    async def serve():
        batcher = Batcher("deu", lambda: batches, Limits(batch=2), Metrics())
        items = batcher.submit(Note(), [Text("a" * size) for size in (1, 40, 2, 41, 7)])
        batcher.start()
        answers = await asyncio.gather(*(item.answer for item in items))
        await batcher.stop()
        return answers

    assert [len(answer) for answer in asyncio.run(serve())] == [1, 40, 2, 41, 7]
    assert batches == [[1, 2], [40, 41], [7]]


def test_only_texts_with_the_same_options_of_their_own_share_a_batch():
    """Otherwise, a text without a target would get that of another client, or an empty one."""
    batches = []

    async def serve():
        batcher = Batcher("deu", lambda: batches, Limits(batch=4), Metrics())
        texts = [Text("a"), Text("b", values={"target": "c"}), Text("d"), Text("e", values={"target": "f"})]
        items = [batcher.submit(Note(), [text])[0] for text in texts]
        batcher.start()
        await asyncio.gather(*(item.answer for item in items))
        await batcher.stop()

    asyncio.run(serve())
    assert batches == [[1, 1], [2, 2]]


@dataclass(frozen=True)
class Steps(TextOperation):
    """Takes a step each millisecond until an event or the end, and tells how many steps each text took together."""

    def cost(self, predictor, text, limits):
        return 10

    def run(self, predictor, texts, *, record=(), progress=False):
        predictor.append([work.text for work in texts])
        for number in range(max(int(work.text.rpartition(" ")[2]) for work in texts)):
            time.sleep(0.001)
            check_wanted()
            for work in texts:
                if work.follow:
                    work.follow(0, f"{work.text} {'a ' * number}")
        return [work.text for work in texts]


LONG = "endless 1000000"


async def forever():
    await asyncio.sleep(3600)


def served(use, **limits):
    """Run a coroutine function with a queue, and return its result, the batches, and what asyncio reported."""
    batches, reported = [], []

    async def serve():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        batcher = Batcher("deu", lambda: batches, Limits(**limits), Metrics())
        batcher.start()
        await asyncio.sleep(0)  # the queue is idle now, and waits some milliseconds for further texts after the first
        result = await use(batcher)
        await batcher.stop()
        await asyncio.sleep(0)
        return result

    return asyncio.run(serve()), batches, reported


def test_a_batch_ends_when_its_deadline_has_passed():
    async def use(batcher):
        with pytest.raises(ServiceError, match="deadline"):
            await wait(batcher, Steps(), [Text(LONG)], 0.05, forever)
        return await wait(batcher, Steps(), [Text("honest 1")], 10, forever)

    assert served(use) == (["honest 1"], [[LONG], ["honest 1"]], [])


def test_a_batch_ends_when_its_client_has_left():
    async def use(batcher):
        with pytest.raises(ServiceError, match="client_closed"):
            await wait(batcher, Steps(), [Text(LONG)], 100, lambda: asyncio.sleep(0.05))
        return await wait(batcher, Steps(), [Text("honest 1")], 10, forever)

    assert served(use)[0] == ["honest 1"]


def test_a_batch_goes_on_for_those_who_still_wait():
    async def use(batcher):
        late = asyncio.create_task(wait(batcher, Steps(), [Text("late 500")], 0.2, forever))
        found = await wait(batcher, Steps(), [Text("honest 500")], 100, forever)
        with pytest.raises(ServiceError, match="deadline"):
            await late
        return found

    assert served(use)[:2] == (["honest 500"], [["honest 500", "late 500"]])


def test_a_stop_ends_the_batch():
    async def use(batcher):
        batcher.submit(Steps(), [Text(LONG)])
        await asyncio.sleep(0.05)

    assert served(use)[1] == [[LONG]]
    end = time.monotonic() + 10
    while any(thread.name.startswith("model-deu") for thread in threading.enumerate()):
        assert time.monotonic() < end


@pytest.mark.parametrize("limits", [{"batch": 2}, {"batch_work": 25}])
def test_other_requests_come_between_the_batches_of_one(limits):
    async def use(batcher):
        first = batcher.submit(Steps(), [Text(f"a {number}") for number in range(1, 6)])
        second = batcher.submit(Note(), [Text("b")])
        await asyncio.gather(*(item.answer for item in (*first, *second)))

    assert served(use, **limits)[1] == [["a 1", "a 2"], [1], ["a 3", "a 4"], ["a 5"]]


def test_a_batch_that_delays_others_too_long_gives_way():
    """The slow text and the honest one share the first batch, and not another one."""

    async def use(batcher):
        slow = batcher.submit(Steps(), [Text(LONG)])
        honest = batcher.submit(Steps(), [Text("honest 20")])
        await asyncio.sleep(0.05)
        other = batcher.submit(Steps(), [Text("another 1")])
        found = await asyncio.gather(*(item.answer for item in (*honest, *other)))
        assert not slow[0].answer.done()
        batcher.withdraw(slow)
        return found

    found, batches, _ = served(use, deadline_seconds=0.6)
    assert found == ["honest 20", "another 1"]
    assert batches[:2] == [[LONG, "honest 20"], ["another 1"]]
    assert ["honest 20"] in batches


def test_too_much_work_is_refused():
    async def use(batcher):
        with pytest.raises(ServiceError, match=r"may need 30 units of work, expected at most 29 \(limits.work\)"):
            batcher.submit(Steps(), [Text("a 1")] * 3)
        return await batcher.submit(Steps(), [Text("a 1")])[0].answer

    assert served(use, work=29)[0] == "a 1"


def test_a_slow_reader_gets_the_error_too():
    async def use(batcher):
        lines = submit_stream(batcher, Steps(), [Text(LONG)], 0.5, lambda results: {})
        first = await anext(lines)
        await asyncio.sleep(0.6)  # the deadline passes while the reader is busy
        return [first] + [line async for line in lines]

    lines, _, reported = served(use)
    assert '"text": ' in lines[0]
    assert '"status": 504' in lines[-1]
    assert len(lines) == 2
    assert not reported
