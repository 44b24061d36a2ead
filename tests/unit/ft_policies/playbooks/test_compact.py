"""Which files of a table are merged, and together with which others."""

from dataclasses import replace

from holdfast.ft_policies.playbooks import compact as policy
from holdfast.ft_policies.playbooks.compact import EpochFiles, files_to_merge, find_due


def fresh(first: int, last: int, size_bytes: int = 1000) -> list[EpochFiles]:
    return [
        EpochFiles(first=epoch, last=epoch, files=1, size_bytes=size_bytes)
        for epoch in range(first, last + 1)
    ]


def merged(first: int, last: int, size_bytes: int) -> EpochFiles:
    return EpochFiles(first=first, last=last, files=1, size_bytes=size_bytes, is_merged=True)


def test_few_new_files_are_not_worth_a_commit() -> None:
    assert files_to_merge(fresh(0, policy.FEWEST_FILES - 2)) is None
    due = files_to_merge(fresh(0, policy.FEWEST_FILES - 1))
    assert due is not None
    assert (due.first, due.last) == (0, policy.FEWEST_FILES - 1)


def test_small_ranges_grow_and_large_ones_stay() -> None:
    new = fresh(200, 399)
    small = files_to_merge([merged(0, 199, policy.SMALL_BYTES), *new])
    assert small is not None
    assert small.first == 0
    large = files_to_merge([merged(0, 199, policy.SMALL_BYTES + 1), *new])
    assert large is not None
    assert large.first == 200


def test_a_backlog_is_merged_in_portions() -> None:
    due = files_to_merge(fresh(0, 2 * policy.MOST_FILES))
    assert due is not None
    assert (due.first, due.files) == (0, policy.MOST_FILES)


def test_a_merge_is_bounded_in_bytes_and_large_files_stay() -> None:
    due = files_to_merge(fresh(0, 200, policy.LARGE_BYTES // 50))
    assert due is not None
    assert (due.first, due.last, due.files) == (0, 49, 50)
    assert due.size_bytes <= policy.LARGE_BYTES
    assert files_to_merge(fresh(0, 200, policy.LARGE_FILE_BYTES)) is None
    wide = EpochFiles(first=0, last=0, files=300, size_bytes=policy.LARGE_BYTES + 1)
    after = files_to_merge([wide, *fresh(1, 100)])
    assert after is not None
    assert (after.first, after.last) == (1, 100)


def test_a_stretch_of_epochs_with_little_output_goes_on_over_portions() -> None:
    empty = [EpochFiles(first=n, last=n, files=0, size_bytes=0) for n in range(1, 50)]
    epoch = EpochFiles(first=0, last=0, files=policy.FEWEST_FILES - 1, size_bytes=1000)
    last = fresh(50, 50)
    due = find_due([[merged(-9, -1, 10)], [epoch], empty[:20], empty[20:], last])
    assert due is not None
    assert (due.first, due.last, due.files) == (-9, 50, policy.FEWEST_FILES + 1)
    gap = replace(empty[20], fits=False)
    assert find_due([[epoch], [*empty[:20], gap], empty[21:], last]) is None


def test_the_files_of_a_stream_that_runs_for_a_year_stay_few() -> None:
    """One merge of 1,200 epochs each 20 minutes, 1 KB an epoch; the rows are written a few times only."""
    ranges: list[EpochFiles] = []
    written = 0
    for run in range(3 * 24 * 365):
        batch = EpochFiles(first=run, last=run, files=1200, size_bytes=1_200_000)
        due = files_to_merge([*ranges, batch])
        assert due is not None
        written += due.size_bytes
        ranges = [unit for unit in ranges if unit.last < due.first]
        ranges.append(merged(due.first, due.last, due.size_bytes))
    assert len(ranges) < 150
    assert written < 20 * run * 1_200_000


def test_a_table_with_many_partitions_has_files_of_a_good_size() -> None:
    """A terabyte in a hundred partitions, which are in each epoch."""
    ranges: list[EpochFiles] = []
    written, size, runs = 0, 400_000_000, 2500
    for run in range(runs):
        batch = EpochFiles(first=run, last=run, files=10_000, size_bytes=size, partitions=100)
        due = files_to_merge([*ranges, batch])
        assert due is not None
        written += due.size_bytes
        ranges = [unit for unit in ranges if unit.last < due.first]
        whole = merged(due.first, due.last, due.size_bytes)
        ranges.append(replace(whole, files=100, partitions=100))
    assert sum(unit.files for unit in ranges) < 20_000
    assert written < 10 * runs * size
