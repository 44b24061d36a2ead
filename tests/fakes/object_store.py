"""An object store in memory, with a clock, a fault to come, and ways to damage what it holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from holdfast.ft_policies.errors import HoldfastError
from holdfast.resources.object_store.s3 import MissingObjectError, StoredObject

PART_BYTES = 1000  # few, so that files and parts do not end together


@dataclass
class InMemoryObjectStore:
    """Keeps objects in a dictionary; `fail_next` makes the coming calls raise."""

    now: float = 1_000_000.0
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    requests: int = 0
    failures: list[HoldfastError | None] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def put(self, key: str, body: bytes | BinaryIO) -> None:
        self._called(f"put {key}")
        self.objects[key] = (body if isinstance(body, bytes) else body.read(), self.now)

    def create(self, key: str, body: bytes) -> None:
        self._called(f"create {key}")
        self.objects.setdefault(key, (body, self.now))

    def get(self, key: str) -> bytes:
        return b"".join(self.read(key))

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        if length == 0:
            return
        self._called(f"get {key}")
        if key not in self.objects:
            raise MissingObjectError(f"get {key}: no such object", hint="")
        last = None if length is None else start + length
        body = self.objects[key][0][start:last]
        for begin in range(0, len(body), PART_BYTES):
            yield body[begin : begin + PART_BYTES]

    def list(self, prefix: str) -> list[StoredObject]:
        self._called(f"list {prefix}")
        return [
            StoredObject(key, len(body), modified_at)
            for key, (body, modified_at) in sorted(self.objects.items())
            if key.startswith(prefix)
        ]

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            self._called(f"delete {len(keys)}")
        for key in keys:
            self.objects.pop(key, None)

    def read_clock(self) -> float:
        self._called("read clock")
        return self.now

    def fail_next(self, *errors: HoldfastError) -> None:
        """Let the next calls fail, one error each."""
        self.failures.extend(errors)

    def plan_failures(self, failures: Sequence[HoldfastError | None]) -> None:
        """What each of the coming calls does, in place of what was planned; `None` is a success."""
        self.failures = [*failures]

    def damage(self, key: str, at: int = 0) -> None:
        """Flip a byte."""
        body, modified_at = self.objects[key]
        flipped = bytes([body[at] ^ 0xFF])
        self.objects[key] = (body[:at] + flipped + body[at + 1 :], modified_at)

    def truncate(self, key: str, to: int) -> None:
        """Cut the end off."""
        body, modified_at = self.objects[key]
        self.objects[key] = (body[:to], modified_at)

    def _called(self, call: str) -> None:
        self.requests += 1
        self.calls.append(call)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
