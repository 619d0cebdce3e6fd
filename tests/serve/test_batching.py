"""The queue in front of a model."""

import asyncio
from dataclasses import dataclass

from regard.serve.batching import Batcher
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.operations import Operation, Work


@dataclass(frozen=True)
class Note(Operation):
    """Notes which texts came together."""

    tasks = ("translation",)

    def run(self, predictor, works):
        predictor.append([work.size for work in works])
        return [work.text for work in works]


def test_texts_of_similar_length_share_a_batch():
    """The oldest text comes first, and takes those with it that are nearest to it in length."""
    batches = []

    async def serve():
        batcher = Batcher("deu", lambda: batches, Limits(batch=2), Metrics())
        items = batcher.submit(Note(), [Work("a" * size) for size in (1, 40, 2, 41, 7)])
        batcher.start()
        answers = await asyncio.gather(*(item.answer for item in items))
        await batcher.stop()
        return answers

    assert [len(answer) for answer in asyncio.run(serve())] == [1, 40, 2, 41, 7]
    assert batches == [[1, 2], [40, 41], [7]]
