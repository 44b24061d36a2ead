"""Reports as tables, files and plots."""

from dataclasses import replace
from math import inf
from pathlib import Path

import dagster as dg
import pytest
from matplotlib.figure import Figure

from holdfast.assets.reports import plots
from holdfast.assets.reports.plots import SHOWN_STREAMS, draw_costs, draw_recoveries, draw_what_if
from holdfast.assets.reports.table_report import SHOWN_ROWS, picture, table
from holdfast.ft_policies.tiering.decision import WhatIf
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.reports.files import finite_or_none, read_report, write_report
from holdfast.observation.reports.what_if import OBJECTIVES, what_if_cells
from tests.builders.reports import a_cost_row, a_recovery
from tests.builders.streams import CLICKS
from tests.fakes.projects import simulated_projects
from tests.fakes.reviewer import simulated_what_if

PNG = b"\x89PNG\r\n"


def points(tmp_path: Path) -> list[WhatIf]:
    with simulated_projects(tmp_path).open() as project:
        return simulated_what_if(project, CLICKS, OBJECTIVES)


def test_a_table_has_the_kinds_of_its_values() -> None:
    shown = table([{"stream": "a", "money": None, "n": 1}, {"stream": "b", "money": 0.5, "n": 2}])
    kinds = {column.name: column.type for column in shown.schema.columns}
    assert kinds == {"stream": "string", "money": "float", "n": "int"}
    assert [record.data["money"] for record in shown.records] == [None, 0.5]


def test_a_table_without_rows_is_one_all_the_same() -> None:
    assert table([]).records == []


def test_long_tables_are_cut_and_figures_are_short() -> None:
    shown = table([{"money": 1.0 / 3.0}] * (SHOWN_ROWS + 5))
    assert len(shown.records) == SHOWN_ROWS
    assert shown.records[0].data["money"] == 0.333333


def test_what_is_infinite_is_no_figure() -> None:
    assert (finite_or_none(1.5), finite_or_none(inf)) == (1.5, None)
    point = WhatIf(
        objective_seconds=1.0,
        tier=Tier.ACTIVE_REPLICATION,
        seconds=inf,
        money_per_hour=0.1,
        weighted=1.0,
        holds=False,
        snapshot_every=inf,
        sync_every=5.0,
    )
    (row,) = what_if_cells([point], currency="USD")
    assert (row["predicted_seconds"], row["snapshot_every_seconds"]) == (None, None)


def test_a_picture_is_in_the_metadata_itself() -> None:
    shown = picture(b"png", "a plot")
    assert isinstance(shown, dg.MarkdownMetadataValue)
    assert shown.value == "![a plot](data:image/png;base64,cG5n)"


def test_a_report_is_stored_for_users_and_for_programs(tmp_path: Path) -> None:
    rows = [a_cost_row().cells()]
    file = write_report(tmp_path, "cost_report", rows, PNG, part="2026-01-02")
    assert file == tmp_path / "reports" / "cost_report" / "2026-01-02.csv"
    assert file.read_text().splitlines()[0].startswith('"stream","currency"')
    assert read_report(tmp_path, "cost_report", part="2026-01-02") == rows
    assert file.with_suffix(".png").read_bytes() == PNG
    assert sorted(path.suffix for path in file.parent.iterdir()) == [".csv", ".parquet", ".png"]


def test_a_report_without_rows_is_stored_and_one_that_was_not_made_is_not(tmp_path: Path) -> None:
    write_report(tmp_path, "tier_decisions", [])
    assert read_report(tmp_path, "tier_decisions") == []
    assert read_report(tmp_path, "recovery_model") is None


@pytest.mark.parametrize("streams", [0, 1, SHOWN_STREAMS + 3])
def test_costs_are_drawn_for_any_number_of_streams(streams: int) -> None:
    rows = [replace(a_cost_row(), stream=f"stream_{number}") for number in range(streams)]
    assert draw_costs(rows, "costs").startswith(PNG)


@pytest.mark.parametrize("streams", [0, 1, 11])
def test_curves_are_drawn_for_any_number_of_streams(tmp_path: Path, streams: int) -> None:
    curve = points(tmp_path)
    drawn = draw_what_if({f"stream_{n}": curve for n in range(streams)}, "USD", "what if")
    assert drawn.startswith(PNG)
    assert len(drawn) < 300_000, "it goes into Dagster's event log"


def test_panels_without_a_stream_are_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_png", drawn.append)
    curve = points(tmp_path)
    draw_what_if({f"stream_{n}": curve for n in range(4)}, "USD", "what if")
    (figure,) = drawn
    assert [panel.get_visible() for panel in figure.axes] == [True] * 4 + [False] * 2


def test_recoveries_are_drawn_with_and_without_any() -> None:
    assert draw_recoveries([], "recoveries").startswith(PNG)
    assert draw_recoveries([a_recovery(4.0), a_recovery(9.0)], "recoveries").startswith(PNG)
