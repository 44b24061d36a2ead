"""Soak: several streams in one project with its Dagster, under all faults that this project knows, at random and at once.

    python -m tests.chaos.soak --seed 7 --minutes 60 --engine postgresql

Each stream, the services, the control store and the operators have a lane of faults; the faults of a lane follow each
other, those of different lanes overlap. A fault is survived when what it hit works again (streams have a secondary, ship
snapshots, Dagster's sensor ticks) and the streams that it touches have committed two new epochs. A command that changes a
stream counts as a fault if it was done; one that was refused as documented, and one that only reads, are counted as
commands and not as faults. At the end every output is compared with a batch oracle, nothing may run on, and nothing may
have grown beyond its bound. The same seed gives the same faults in the same order in each lane; when exactly they fall
depends on the machine. Exit code 1 and a kept folder if anything did not hold.

One known fault is not injected: a control store that loses its last commit ends in a stream that stands still
(`input_differs`), which leaves nothing to go on with. `tests/model` searches it (the bounds "lost commit …" of
`scenarios.py`), `tests/unit/streaming/sinks/delta/test_sink.py` has it with the real sink.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.chaos.chaos_run import ChaosRun, build_parser, run_chaos
from tests.chaos.circuit import seed_random
from tests.chaos.report import Trial
from tests.chaos.soak_end import (
    measure_growth,
    require_bounds,
    require_exact,
    require_nothing_left,
    require_settled,
    run_retention,
)
from tests.chaos.soak_faults import Injector
from tests.chaos.soak_plan import (
    NAMES,
    Engine,
    Injection,
    Kind,
    Lane,
    NotApplicableError,
    Outcome,
    Role,
    Work,
    build_schedule,
    kinds_of,
)
from tests.chaos.soak_project import SoakProject, SoakStream, a_soak_project
from tests.chaos.soak_report import SoakReport

OPERATORS = 2
IDLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """One run over one project."""

    run: ChaosRun
    seed: int
    soak: SoakProject
    injector: Injector
    growth: dict[str, float] = field(default_factory=dict)

    def go(self, names: Sequence[str]) -> None:
        """Inject faults in all lanes until time is up or something did not hold, then look at what is left."""
        self._hold("start", self._start)
        if self.soak.over.is_set():
            return
        lanes = [
            threading.Thread(target=self._follow, args=lane, name=lane[0], daemon=True)
            for lane in self._lanes(names)
        ]
        for lane in lanes:
            lane.start()
        try:
            self.soak.over.wait(max(0.0, self.run.deadline - time.monotonic()))
        finally:
            self.soak.over.set()
            for lane in lanes:  # its fault is over and survived, or not; Ctrl-C again does not wait
                lane.join()
        self._finish()

    def _lanes(self, names: Sequence[str]) -> list[tuple[str, list[Kind], list[SoakStream]]]:
        streams = list(self.soak.streams.values())

        def kinds(lane: Lane, traits: Sequence[str] = ()) -> list[Kind]:
            return kinds_of(lane, engine=self.soak.engine, names=names, traits=traits)

        return [
            *((each.name, kinds(Lane.STREAM, each.traits), [each]) for each in streams),
            *((lane.value, kinds(lane), streams) for lane in (Lane.SERVICES, Lane.STORE)),
            *((f"operator {n}", kinds(Lane.OPERATOR), streams) for n in range(OPERATORS)),
        ]

    def _follow(self, lane: str, kinds: Sequence[Kind], streams: Sequence[SoakStream]) -> None:
        chance = seed_random(f"{self.seed} {lane} streams")
        for injection in build_schedule(self.seed, lane, kinds):
            if self.soak.over.is_set():
                return
            stream = chance.choice(streams)
            if not self._hold(
                injection.kind.name,
                lambda: self._inject(injection, stream, streams),  # noqa: B023
            ):
                self.soak.over.wait(IDLE_SECONDS)

    def _inject(
        self, injection: Injection, stream: SoakStream, streams: Sequence[SoakStream]
    ) -> tuple[Outcome, float | None]:
        outcome = self.injector.inject(injection, stream)
        if injection.kind.role is Role.READ:
            return outcome, None
        touched = [stream] if injection.kind.lane in (Lane.STREAM, Lane.OPERATOR) else streams
        seconds = max(each.await_new_epochs() for each in touched)
        name = stream.name if len(touched) == 1 else ""
        return replace(outcome, what=f"{name} {outcome.what}"), seconds

    def _hold(self, part: str, act: Callable[[], object]) -> bool:
        """Do something and note it; false if it could not be done at this moment."""
        note = self.run.report.note
        try:
            match act():
                case (Outcome(what, refused), seconds):
                    what = what.strip()[:200]
                    note(Trial(part=part, what=what, seconds=seconds, refused=refused))
                case what:
                    note(Trial(part=part, what=what if isinstance(what, str) else ""))
        except NotApplicableError:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the run did not hold
            number = len(self.run.report.failed) + 1
            story = self.run.folder / f"{part}.{number}.failure.txt"
            story.write_text(traceback.format_exc())
            summary = str(error).splitlines()[0][:300] if str(error) else repr(error)
            failure = f"FAILED: {summary}"
            note(Trial(part=part, what=f"see {story}", failure=failure))
            self.soak.over.set()
        return True

    def _start(self) -> None:
        self.soak.ensure_dagster()
        for stream in self.soak.streams.values():
            stream.start()
        for stream in self.soak.streams.values():
            stream.await_new_epochs()

    def _finish(self) -> None:
        faults = len(self.run.report.trials)
        self._hold("settled", lambda: require_settled(self.soak))
        streams = self.soak.streams.values()
        for stream in streams:
            self._hold("stopped", stream.stop)
        self._hold("stopped", self.soak.dagster.stop)
        for stream in streams:
            self._hold("exact output", lambda: require_exact(stream))  # noqa: B023
        store = self.soak.project.store
        replicas = sum(len(store.replicas.of(each.name, live=False)) for each in streams)
        self._hold("pruned", lambda: run_retention(self.soak))
        embedded = self.soak.project.embedded_s3()
        if embedded is not None:
            self._hold("stopped", embedded.stop)
        self._hold("nothing left", lambda: require_nothing_left(self.soak))
        work = Work(
            epochs=sum(stream.epoch() + 1 for stream in streams),
            replicas=replicas,
            faults=faults,
            minutes=(time.monotonic() - self.run.report.began) / 60.0,
        )
        self._hold("bounds", lambda: self._require_bounds(work))

    def _require_bounds(self, work: Work) -> None:
        self.growth.update(measure_growth(self.soak))
        require_bounds(self.growth, work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, show the table, and write the same as JSON."""
    wanted = _parser().parse_args(arguments)

    report = SoakReport(names=tuple(wanted.faults), engine=wanted.engine)

    def body(run: ChaosRun) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        report.say(f"seed {wanted.seed}, {wanted.streams} streams, engine {wanted.engine}")
        with a_soak_project(run.folder, wanted.engine, wanted.streams) as project:
            soak = Soak(run=run, seed=wanted.seed, soak=project, injector=Injector(project))
            soak.go(wanted.faults)
        facts = {
            "seed": wanted.seed,
            "engine": wanted.engine,
            "streams": wanted.streams,
            "minutes": round((time.monotonic() - report.began) / 60.0, 1),
            **report.as_dict(),
            "checks": report.count_checks(CHECKS),
            "growth": soak.growth,
            "failures": [f"{each.part}: {each.failure}" for each in report.failed],
        }
        name = f"soak-{wanted.engine}-{wanted.seed}.json"
        file = wanted.json or Path(tempfile.gettempdir()) / name
        file.write_text(json.dumps(facts, indent=2))
        report.say(f"the report as JSON: {file}")

    return run_chaos(wanted, body, report)


CHECKS = ("start", "settled", "stopped", "exact output", "pruned", "nothing left", "bounds")


def _parser() -> argparse.ArgumentParser:
    options = build_parser("tests.chaos.soak", __doc__)
    options.set_defaults(minutes=60.0)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--streams", type=int, choices=(1, 2, 3), default=3)
    options.add_argument("--engine", type=Engine, choices=list(Engine), default=Engine.POSTGRESQL)
    options.add_argument("--faults", choices=NAMES, nargs="+", default=list(NAMES))
    options.add_argument("--json", type=Path, help="where the report goes as JSON")
    return options


if __name__ == "__main__":
    sys.exit(main())
