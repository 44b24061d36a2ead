"""What every object store must do, on whatever it stands."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.resources.object_store.s3 import MissingObjectError, ObjectStore


class ObjectStoreContract:
    """Subclasses provide the fixture `store`: an empty object store."""

    def test_what_was_put_is_got(self, store: ObjectStore) -> None:
        store.put("a/b", b"hello")
        assert store.get("a/b") == b"hello"

    def test_a_file_is_put_from_where_it_stands(self, store: ObjectStore) -> None:
        body = io.BytesIO(b"skipped and kept")
        body.seek(12)
        store.put("a", body)
        assert store.get("a") == b"kept"

    def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        store.put("nothing", b"")
        assert store.get("nothing") == b""
        assert [o.size_bytes for o in store.list("nothing")] == [0]

    def test_a_put_replaces(self, store: ObjectStore) -> None:
        store.put("a", b"a long first version")
        store.put("a", b"second")
        assert store.get("a") == b"second"
        assert [o.size_bytes for o in store.list("a")] == [6]

    def test_an_object_that_is_not_there_is_created(self, store: ObjectStore) -> None:
        store.create("owner", b"first")
        assert store.get("owner") == b"first"

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, 3, b"012"),
            (3, 4, b"3456"),
            (7, None, b"789"),
            (0, None, b"0123456789"),
            (8, 10, b"89"),
            (10, 1, b""),
            (99, 5, b""),
            (2, 0, b""),
        ],
    )
    def test_a_range_is_cut_where_the_object_ends(
        self, store: ObjectStore, start: int, length: int | None, expected: bytes
    ) -> None:
        store.put("digits", b"0123456789")
        assert b"".join(store.read("digits", start=start, length=length)) == expected

    @pytest.mark.parametrize("start", [0, 5])
    def test_a_missing_object_is_an_error_of_its_own(self, store: ObjectStore, start: int) -> None:
        with pytest.raises(MissingObjectError):
            list(store.read("never/written", start=start))

    def test_a_large_object_comes_in_parts_with_one_request(self, store: ObjectStore) -> None:
        body = bytes(range(256)) * 20_000
        store.put("large", body)
        before = store.requests
        parts = list(store.read("large", start=7, length=len(body) - 14))
        assert len(parts) > 1
        assert b"".join(parts) == body[7:-7]
        assert store.requests - before == 1

    def test_a_listing_shows_what_is_under_the_prefix_in_order(self, store: ObjectStore) -> None:
        for key in ("s/b", "s/a", "s2/c", "s/d/e"):
            store.put(key, b"x")
        assert [o.key for o in store.list("s/")] == ["s/a", "s/b", "s/d/e"]
        assert store.list("nothing/here/") == []

    def test_a_listing_knows_size_and_time(self, store: ObjectStore) -> None:
        store.put("first", b"123")
        (listed,) = store.list("first")
        assert (listed.key, listed.size_bytes) == ("first", 3)
        assert listed.modified_at > 0

    def test_deleting_is_idempotent(self, store: ObjectStore) -> None:
        store.put("a", b"1")
        store.put("b", b"2")
        store.delete(["a", "never"])
        store.delete(["a"])
        store.delete([])
        assert [o.key for o in store.list("")] == ["b"]

    def test_one_put_is_one_request(self, store: ObjectStore) -> None:
        store.list("")
        before = store.requests
        store.put("large", io.BytesIO(bytes(20 << 20)))
        assert store.requests - before == 1

    def test_many_threads_may_read(self, store: ObjectStore) -> None:
        store.put("shared", bytes(range(256)) * 64)
        with ThreadPoolExecutor(8) as pool:
            parts = list(
                pool.map(
                    lambda n: b"".join(store.read("shared", start=n * 256, length=256)), range(64)
                )
            )
        assert parts == [bytes(range(256))] * 64

    def test_its_clock_is_the_one_that_dates_objects(self, store: ObjectStore) -> None:
        before = store.read_clock()
        store.put("dated", b"1")
        (dated,) = store.list("dated")
        assert before - 2 <= dated.modified_at <= store.read_clock() + 2

    def test_a_listing_has_what_was_just_put_in_full(self, store: ObjectStore) -> None:
        bodies = {f"packs/{number}": bytes(100_000 + number) for number in range(5)}
        for key, body in bodies.items():
            store.put(key, body)
        listed = {stored.key: stored.size_bytes for stored in store.list("packs/")}
        assert listed == {key: len(body) for key, body in bodies.items()}
