"""The best ten are those that sorting everything would find."""

from hypothesis import given, strategies as st

from holdfast.apps.taxi.ranking import PLACES, Rank, Ranking

KEYS = st.integers(0, 30)
PUTS = st.tuples(st.integers(-5, 0), st.integers(-3, 0), KEYS)
CHANGES = st.lists(st.lists(PUTS | KEYS, min_size=1, max_size=4), max_size=60)


@given(CHANGES)
def test_the_best_are_those_that_sorting_finds(changes: list[list[Rank | int]]) -> None:
    ranking, ranks, reported = Ranking(), dict[int, Rank](), list[int]()
    for together in changes:
        for change in together:
            if isinstance(change, int):
                ranking.drop(change)
                ranks.pop(change, None)
            else:
                ranking.put(change)
                ranks[change[2]] = change
        best = ranking.best()
        reported = reported if best is None else best
        assert reported == [key for _, _, key in sorted(ranks.values())[:PLACES]]


def test_a_change_far_below_the_tenth_place_moves_nothing() -> None:
    ranking = Ranking()
    for key in range(PLACES):
        ranking.put((-2, 0, key))
    assert ranking.best() == list(range(PLACES))
    ranking.put((-1, 0, 99))
    assert ranking.best() is None
    ranking.drop(99)
    assert ranking.best() is None


def test_the_same_rank_again_may_stand_for_other_figures_and_is_a_move() -> None:
    ranking = Ranking()
    ranking.put((-2, 0, 1))
    assert ranking.best() == [1]
    ranking.put((-2, 0, 1))
    assert ranking.best() == [1]
