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


def test_the_first_table_of_a_stream_stands_and_may_move(store: ControlStore) -> None:
    assert store.outputs.get("words") is None
    first = store.outputs.record("words", table_id="one", path="/a")
    assert store.outputs.record("words", table_id="two", path="/b") == first
    assert (first.table_id, first.path) == ("one", "/a")
    store.outputs.move("words", path="/b", table_id="one")
    moved = store.outputs.get("words")
    assert moved is not None
    assert (moved.table_id, moved.path) == ("one", "/b")


def test_the_first_home_stands(store: ControlStore) -> None:
    assert store.identity.bind_home("one") == "one"
    assert store.identity.bind_home("two") == "one"
