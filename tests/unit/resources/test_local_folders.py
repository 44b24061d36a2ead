"""The id of a home folder."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from holdfast.resources.local_folders import ID_FILE, read_id

LAUNCHES = 8
HOMES = 20


def test_launches_at_once_read_the_same_id(tmp_path: Path) -> None:
    homes = [tmp_path / f"home-{number}" for number in range(HOMES)]
    barrier = Barrier(LAUNCHES)

    def launch(_: int) -> list[str]:
        ids: list[str] = []
        for home in homes:
            barrier.wait(10)
            ids.append(read_id(home))
        return ids

    with ThreadPoolExecutor(LAUNCHES) as pool:
        by_launch = list(pool.map(launch, range(LAUNCHES)))

    kept = [(home / ID_FILE).read_text() for home in homes]
    assert by_launch == [kept] * LAUNCHES
    assert [file.name for home in homes for file in home.iterdir()] == [ID_FILE] * HOMES
