"""The report on the cost of other objectives: for each stream, from 0 to 60 seconds."""

from functools import partial

import dagster as dg

from assets.failures import explained
from assets.keys import report_key, stream_key
from assets.reports import suites
from assets.reports.checking import Materialized, expectations_of, judge
from assets.reports.curves import OBJECTIVES, AskWhatIf, currency_of, rows
from assets.reports.plots import draw_what_if
from assets.reports.showing import picture, table
from assets.reports.storing import store
from assets.worlds import Worlds
from resources.control.records import DesiredState
from streaming.world import World

REPORT = "what_if"
TITLE = "What an objective costs in fault tolerance"


def definition(streams: list[str], ask: AskWhatIf) -> dg.AssetsDefinition:
    """The report over these streams; `ask` evaluates the objectives of one."""

    @dg.asset(
        key=report_key(REPORT),
        deps=[stream_key(name) for name in streams],
        group_name="reports",
        kinds={"table"},
        description="For each stream that should run: the tier that an objective from 0 to 60 s needs "
        "at the present load, its cost per hour, and whether any tier meets the objective.",
        check_specs=[
            expectations_of(
                REPORT,
                "A longer objective never costs more, and a tier that holds is predicted to recover in time.",
            )
        ],
    )
    def what_if(worlds: dg.ResourceParam[Worlds]) -> Materialized:
        with explained(), worlds.open() as world:
            curves = {name: ask(world, name, OBJECTIVES) for name in _running(world, streams)}
            table_rows = rows(curves, world)
            currencies = sorted({currency_of(world, name) for name in curves})
            png = draw_what_if(curves, ", ".join(currencies) or "money", TITLE)
            file = store(world.project.home, REPORT, table_rows, png)
            weigh_by = {name: world.project.stream(name).controller.weigh_by for name in curves}
        return dg.MaterializeResult(
            metadata={
                "objectives": table(table_rows),
                "dagster/row_count": len(table_rows),
                "plot": picture(png, TITLE),
                "file": dg.MetadataValue.path(file),
            },
            check_results=[judge(table_rows, partial(suites.what_if, weigh_by=weigh_by))],
        )

    return what_if


def _running(world: World, streams: list[str]) -> list[str]:
    wanted = {row.name for row in world.store.streams.all() if row.desired is DesiredState.RUNNING}
    return [name for name in streams if name in wanted]
