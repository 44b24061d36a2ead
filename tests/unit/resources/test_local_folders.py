"""A project with local folders runs on one host; its home folder has an id."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from holdfast.ft_policies.errors import TransientError
from holdfast.ft_policies.tiers import PRIMARY
from holdfast.resources.control_store.records import EndedBy, ReplicaState, Slot
from holdfast.resources.local_folders import ID_FILE, read_id, require_one_host
from holdfast.resources.process import HOST
from tests.builders.streams import CLICKS, a_wanted_stream
from tests.fakes.projects import simulated_projects

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


@pytest.mark.parametrize("host", ["another", HOST])
def test_no_replica_is_launched_beside_one_of_another_host_on_the_same_file_of_sqlite(
    tmp_path: Path, host: str
) -> None:
    """Whatever it is shared by; a clone has the name of this host, and another boot."""
    with simulated_projects(tmp_path).open() as project:
        a_wanted_stream(project)
        config, store = project.config, project.store
        fields = {"stream": CLICKS, "slot": Slot.PRIMARY, "desired": PRIMARY, "folder": ""}
        store.replicas.register(id="r1", host=host, boot="another", **fields)
        with pytest.raises(TransientError, match=f"has a replica on the host {host}"):
            require_one_host(config, store, config.stream(CLICKS))
        store.replicas.end("r1", ReplicaState.DEAD, "gone", by=EndedBy.REPLICA)
        require_one_host(config, store, config.stream(CLICKS))
