"""A way to a server that breaks off in the middle of an answer, a number of times."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PIECE = 64 << 10


@dataclass
class BreakingWay:
    """Passes everything on; the first `times` connections break off after `after_bytes` of answers."""

    to: str
    after_bytes: int
    times: int
    connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def opened(self) -> Iterator[str]:
        """Under which address it is to be had."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        upstream = urlsplit(self.to)
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                there = socket.create_connection((upstream.hostname, upstream.port))
                breaks = self._is_to_break()
                pumps = (
                    (client, there, None),
                    (there, client, self.after_bytes if breaks else None),
                )
                for pump in pumps:
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _is_to_break(self) -> bool:
        with self._lock:
            self.connections += 1
            return self.connections <= self.times

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, most: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while piece := source.recv(PIECE):
                target.sendall(piece if most is None else piece[: most - passed])
                passed += len(piece)
                if most is not None and passed >= most:
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
