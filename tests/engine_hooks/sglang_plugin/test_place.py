"""Where in the node a scheduler stands, and what its ranks are called."""

from __future__ import annotations

import pytest

from engine_hooks.sglang_plugin.place import Place


def place(tp_rank: int = 0, pp_rank: int = 0, *, width: int = 1, stages: int = 1, **given: int) -> Place:
    rest = {"replica": 0, "replicas": 1, "hosts": 1} | given
    return Place(
        rank=pp_rank * width + tp_rank % width, tp_rank=tp_rank, pp_rank=pp_rank, width=width, stages=stages, **rest
    )


def test_one_rank() -> None:
    assert place().labels() == ["tp0"]


def test_every_rank_comes_to_the_same_list() -> None:
    ranks = [place(tp, pp, width=2, stages=2) for pp in range(2) for tp in range(2)]
    assert {tuple(rank.labels()) for rank in ranks} == {("tp0-pp0", "tp1-pp0", "tp0-pp1", "tp1-pp1")}


def test_the_list_is_in_the_order_of_the_ranks_and_has_the_own_one_in_it() -> None:
    for rank in [place(tp, pp, width=4, stages=2) for pp in range(2) for tp in range(4)]:
        assert len(rank.labels()) == rank.ranks
        assert rank.labels()[rank.rank] == rank.label


def test_a_replica_names_its_own_ranks_only() -> None:
    """With data-parallel attention, the ranks of all replicas are numbered through."""
    second = place(3, width=2, replica=1, replicas=2)
    assert second.labels() == ["dp1-tp2", "dp1-tp3"]
    assert second.labels()[second.rank] == second.label


def test_nobody_knows_what_another_host_calls_its_emitters() -> None:
    assert place(1, width=2, hosts=2).labels() == []


@pytest.mark.parametrize("replica", [0, 1])
def test_a_replica_is_a_node_of_its_own(replica: int) -> None:
    boot = bytes(range(16))
    assert (place(replica=replica, replicas=2).node_id(boot) == boot) is (replica == 0)
