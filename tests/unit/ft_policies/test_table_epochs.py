"""Which rows of a table are of which epochs: indexes of merged files, and what goes when a table goes back."""

from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.table_epochs import (
    EpochIndex,
    EpochRange,
    RowCounts,
    divide_epochs,
    join_indexes,
    read_index,
    split_files,
    subtract_digests,
    sum_digests,
)

COUNTS = st.dictionaries(st.integers(0, 10**9), st.integers(1, 10**6), max_size=30).map(
    lambda counts: tuple(sorted(counts.items()))
)


@dataclass(frozen=True)
class File:
    path: str
    rows: int
    epochs: EpochRange | None


@given(COUNTS, st.integers(-1, 10**9))
def test_an_index_is_read_as_it_was_written(
    counts: tuple[tuple[int, int], ...], before: int
) -> None:
    for index in (EpochIndex(counts), EpochIndex(counts).fold(before)):
        assert read_index(index.to_text()) == index


@pytest.mark.parametrize("text", ["", "x", "eJw=", "bm8gaW5kZXg="])
def test_what_is_no_index_is_none(text: str) -> None:
    assert read_index(text) is None


def test_the_index_of_a_day_is_small() -> None:
    alike = EpochIndex(tuple((epoch, 500) for epoch in range(86_400)))
    varied = EpochIndex(tuple((epoch, 500 + epoch * 7919 % 100) for epoch in range(86_400)))
    assert len(alike.to_text()) < 2_000
    assert len(varied.to_text()) < 200_000


@given(COUNTS, st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_folded_index_has_the_same_rows_and_knows_the_later_epochs(
    counts: tuple[tuple[int, int], ...], before: int, epoch: int
) -> None:
    index = EpochIndex(counts)
    folded = index.fold(before)
    assert folded.rows == index.rows
    assert folded.fold(before) == folded
    assert all(folded.is_known(number) for number, _ in counts if number >= before)
    if folded.is_known(epoch):
        assert folded.through(epoch).rows == index.through(epoch).rows


@given(COUNTS, st.integers(0, 10**9), st.integers(0, 10**9))
def test_joined_files_have_the_rows_of_both(
    counts: tuple[tuple[int, int], ...], place: int, before: int
) -> None:
    first = EpochIndex(tuple(count for count in counts if count[0] < place)).fold(before)
    second = EpochIndex(tuple(count for count in counts if count[0] >= place))
    joined = join_indexes([first, second])
    assert joined.rows == EpochIndex(counts).rows
    assert joined == EpochIndex(counts).fold(min(before, place))


def test_a_file_without_counts_folds_all_before_its_end() -> None:
    single, old = EpochIndex(((0, 2), (1, 3))), EpochIndex((), 9, 40)
    joined = join_indexes([single, old, EpochIndex(((10, 5),)), EpochIndex(((10, 1),))])
    assert joined == EpochIndex(((10, 6),), 9, 45)
    assert not joined.is_known(8)


def test_files_of_later_epochs_go_and_those_of_other_programs_stay() -> None:
    files = [
        File("other", 1, None),
        File("before", 1, EpochRange(0, 4)),
        File("both", 1, EpochRange(5, 7)),
        File("at", 1, EpochRange(6, 6)),
        File("after", 1, EpochRange(7, 9)),
    ]
    split = split_files(files, 6)
    paths = [[file.path for file in part] for part in (split.stay, split.go, split.cut)]
    assert paths == [["other", "before", "at"], ["after"], ["both"]]


def test_epochs_with_fewer_rows_than_expected_are_lacking() -> None:
    counts = RowCounts()
    counts.add(File("one", 3, EpochRange(9, 9)), None)
    counts.add(File("range", 10, EpochRange(0, 3)), None)
    counts.add(File("counted", 9, EpochRange(4, 8)), EpochIndex(((6, 2), (7, 3)), 5, 4))
    assert counts.find_lacking({0: 4, 3: 6, 4: 1, 5: 3, 6: 2, 7: 3, 9: 3}) == []
    assert counts.find_lacking({9: 4, 7: 3, 10: 1}) == [9, 10]
    assert counts.find_lacking({0: 4, 3: 7, 6: 2}) == [0, 3]  # in sum they have too few
    assert counts.find_lacking({4: 1, 5: 4, 8: 1}) == [4, 5, 8]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=5), st.lists(st.integers(0, 2**64 - 1)))
def test_a_digest_without_those_of_some_epochs_is_that_of_the_others(
    stay: list[int], go: list[int]
) -> None:
    digests = [[f"{number:016x}" for number in part] for part in (stay, go)]
    assert subtract_digests(sum_digests([*digests[0], *digests[1]]), digests[1]) == sum_digests(
        digests[0]
    )


@pytest.mark.parametrize(("digest", "go"), [("", ["01"]), ("01", ["", "02"])])
def test_without_a_digest_none_is_known(digest: str, go: list[str]) -> None:
    assert subtract_digests(digest, go) == ""


def ranges(*bounds: tuple[int, int]) -> list[EpochRange]:
    return [EpochRange(first, last) for first, last in bounds]


def test_epochs_are_compared_by_merged_ranges_and_what_is_between_them() -> None:
    merged = ranges((0, 9), (20, 29))
    assert divide_epochs(merged, known_from=0, before=40) == ranges(
        (0, 9), (10, 19), (20, 29), (30, 39)
    )
    assert divide_epochs(merged, known_from=0, before=15) == ranges((0, 9), (10, 14), (20, 29))
    assert divide_epochs([], known_from=0, before=0) == []


def test_pruned_epochs_are_one_stretch_up_to_the_end_of_the_last_range_that_begins_there() -> None:
    merged = ranges((2, 9), (10, 19), (20, 29))
    assert divide_epochs(merged, known_from=15, before=0) == ranges((0, 19), (20, 29))
    assert divide_epochs(merged, known_from=50, before=0) == ranges((0, 49))
    assert divide_epochs([], known_from=5, before=0) == ranges((0, 4))
