"""The pool: positions are added in place, and no state changes what another one reads."""

import torch

from regard.layers.pool import Pool


def added(pool: Pool, value: float) -> Pool:
    made = pool.extended()
    made.storage.select(pool.axis, pool.length).fill_(value)
    return made


def values(pool: Pool) -> list[float]:
    assert (pool.positions == pool.positions[:1, :, :1]).all()
    return pool.positions[0, :, 0].tolist()


def test_it_grows():
    pool = Pool.empty(torch.empty(2, 5, 3), 1)
    for number in range(40):
        pool = added(pool, number)
    assert pool.length == 40
    assert values(pool) == list(range(40))
    assert pool.positions.shape == (2, 40, 3)


def test_adding_copies_nothing_while_there_is_space():
    pool = added(Pool.empty(torch.empty(2, 0, 3), 1), 1)
    assert added(pool, 2).storage is pool.storage


def test_the_second_continuation_gets_a_copy():
    start = added(Pool.empty(torch.empty(2, 0, 3), 1), 1)
    one, other = added(start, 2), added(start, 3)
    assert one.storage is start.storage is not other.storage
    assert (values(start), values(one), values(other)) == ([1], [1, 2], [1, 3])
    assert values(added(other, 4)) == [1, 3, 4]
    assert values(one) == [1, 2]


def test_given_positions_have_no_space_behind_them():
    pool = Pool.of(torch.ones(2, 3, 2), 1)
    longer = added(pool, 7)
    assert longer.storage is not pool.storage
    assert values(longer) == [1, 1, 1, 7]
    assert longer.storage.shape[1] > 4


def test_rows_are_selected_with_the_free_space_but_not_its_values():
    pool = added(Pool.of(torch.arange(24.0).view(4, 3, 2), 1), 7)
    chosen = pool.index_select(0, torch.tensor([3, 1]))
    assert chosen.storage.shape == (2, pool.storage.shape[1], 2)
    assert torch.equal(chosen.positions, pool.positions[[3, 1]])
    assert added(chosen, 8).storage is chosen.storage
    assert torch.equal(pool.positions[:, :3], torch.arange(24.0).view(4, 3, 2)), "the first pool has not changed"
