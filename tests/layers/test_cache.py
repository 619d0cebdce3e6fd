"""The key–value cache: what it holds, and that nobody writes over what another reads."""

import torch
from torch import Tensor

from regard.attention.head_memory import HeadMemory
from regard.layers.cache import KeyValueCache

ROWS, HEADS, WIDTH = 5, 3, 2


def steps(count: int) -> list[HeadMemory]:
    torch.manual_seed(0)
    return [HeadMemory(torch.randn(ROWS, HEADS, 1, WIDTH), torch.randn(ROWS, HEADS, 1, WIDTH)) for _ in range(count)]


def joined(given: list[HeadMemory]) -> tuple[Tensor, Tensor]:
    return torch.cat([step.key for step in given], 2), torch.cat([step.value for step in given], 2)


def filled(given: list[HeadMemory]) -> KeyValueCache:
    cache = KeyValueCache.begin(given[0])
    for step in given[1:]:
        cache = cache.join(step)
    return cache


def holds(cache: KeyValueCache, given: list[HeadMemory], rows: Tensor | None = None) -> bool:
    key, value = joined(given) if rows is None else (part[rows] for part in joined(given))
    return torch.equal(cache.key, key) and torch.equal(cache.value, value)


def test_it_holds_what_was_appended():
    given = steps(29)
    with torch.no_grad():
        cache = filled(given)
    assert cache.length == 29
    assert holds(cache, given)


@torch.no_grad()
def test_a_step_copies_nothing_where_there_is_room():
    given = steps(3)
    one = filled(given[:2])
    two = one.join(given[2])
    assert two.pool.storage.data_ptr() == one.pool.storage.data_ptr()
    moved = two.select(torch.tensor([3, 0]))
    later = moved.join(HeadMemory(given[0].key[:2], given[0].value[:2]))
    assert later.pool.storage.data_ptr() == moved.pool.storage.data_ptr()


@torch.no_grad()
def test_two_that_go_on_from_one_do_not_disturb_each_other():
    given = steps(4)
    start = filled(given[:2])
    one, other = start.join(given[2]), start.join(given[3])
    assert holds(one, given[:3])
    assert holds(other, [*given[:2], given[3]])
    assert holds(start, given[:2])
    assert holds(one.join(given[0]), [*given[:3], given[0]])


@torch.no_grad()
def test_select_moves_rows_and_leaves_the_old_cache_alone():
    given, rows = steps(3), torch.tensor([4, 4, 0, 2])
    cache = filled(given)
    moved = cache.select(rows)
    assert holds(moved, given, rows)
    moved.join(HeadMemory(torch.zeros(4, HEADS, 1, WIDTH), torch.zeros(4, HEADS, 1, WIDTH)))
    assert holds(moved, given, rows)
    assert holds(cache, given)


def test_gradients_flow_through_it():
    given = steps(3)
    keys = [step.key.requires_grad_() for step in given]
    cache = filled(given).select(torch.tensor([0, 1]))
    cache.key.sum().backward()
    for key in keys:
        assert key.grad is not None
        assert torch.equal(key.grad, torch.ones_like(key) * (torch.arange(ROWS) < 2)[:, None, None, None])
