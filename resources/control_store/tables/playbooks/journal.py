"""The playbook journal: each step before and after it is performed, for operators and audits."""

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database, store_now
from holdfast.resources.control_store.records import JournalLine, JsonObject, Phase
from holdfast.resources.control_store.schema import journal

_OF = (
    sa.select(journal)
    .where(journal.c.stream == sa.bindparam("of_stream"))
    .order_by(journal.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_SINCE = (
    sa.select(journal)
    .where(
        journal.c.stream == sa.bindparam("of_stream"),
        journal.c.playbook == sa.bindparam("of_playbook"),
        journal.c.at >= sa.bindparam("since", type_=sa.Double),
    )
    .order_by(journal.c.id)
)


class Journal:
    def __init__(self, database: Database) -> None:
        self._database = database

    def write(
        self,
        *,
        stream: str,
        playbook: str,
        run: str,
        step: str,
        phase: Phase,
        incident: str | None = None,
        seconds: float | None = None,
        detail: JsonObject | None = None,
    ) -> None:
        line = sa.insert(journal).values(
            stream=stream,
            playbook=playbook,
            run=run,
            incident=incident,
            step=step,
            phase=phase,
            at=store_now(),
            seconds=seconds,
            detail=detail or {},
        )
        self._database.execute(line)

    def of(self, stream: str, *, run: str | None = None, limit: int = 200) -> list[JournalLine]:
        """The newest lines of a stream, or of one run, oldest first."""
        query = _OF if run is None else _OF.where(journal.c.run == run)
        values = {"of_stream": stream, "most": limit}
        return self._database.find_all(JournalLine, query, values)[::-1]

    def since(self, stream: str, playbook: str, *, at: float) -> list[JournalLine]:
        """All lines of one playbook from a time on, oldest first."""
        values = {"of_stream": stream, "of_playbook": playbook, "since": at}
        return self._database.find_all(JournalLine, _SINCE, values)
