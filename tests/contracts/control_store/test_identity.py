from concurrent.futures import ThreadPoolExecutor

from holdfast.resources.control_store.store import ControlStore


def test_of_many_processes_that_ask_at_once_one_makes_the_id(url: str) -> None:
    ControlStore.open(url).close()

    def ask(_: int) -> str:
        with ControlStore.open(url) as store:
            return store.identity.project_id()

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(ask, range(8)))
    assert len(ids) == 1
