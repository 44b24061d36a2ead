"""Generated calls are the same for a seed, in order, possible, and every query finds something."""

from importlib import import_module, resources

import pandas as pd
import pytest
import yaml

from holdfast.apps.telecom import oracle
from holdfast.apps.telecom.generator import COLUMNS, records

QUERIES = [
    "blacklist", "calls_histogram", "consumption_control", "high_mobility", "overlapping_calls",
]  # fmt: skip


def declared(query: str) -> dict[str, object]:
    text = resources.files("holdfast.apps.telecom").joinpath(f"{query}.yaml").read_text()
    declaration: dict[str, object] = yaml.safe_load(text)
    return declaration


def test_the_same_seed_gives_the_same_calls_and_another_one_others() -> None:
    pd.testing.assert_frame_equal(records(2000, 1), records(2000, 1))
    assert not records(2000, 1).equals(records(2000, 2))


def test_calls_are_as_many_as_asked_for_in_the_order_of_time_and_possible() -> None:
    calls = records(50_000, 3)
    assert len(calls) == 50_000
    assert [column.split()[0] for column in COLUMNS.split(", ")] == list(calls.columns)
    assert calls["time"].is_monotonic_increasing
    assert oracle.accepted(calls).all()


def test_twelve_hours_take_200_000_calls() -> None:
    time = records(200_000, 1)["time"]
    assert 10 * 3600 < time.iloc[-1] - time.iloc[0] < 14 * 3600


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_finds_something_in_its_declared_form(query: str) -> None:
    declaration = declared(query)
    calls = records(30_000, 5).assign(epoch=lambda each: each.index // 10_000)
    output = getattr(oracle, query)(calls, declaration["params"], last_epoch=3)
    assert sum(map(len, output.values())) > 10


@pytest.mark.parametrize("query", QUERIES)
def test_a_declaration_reads_what_the_generator_writes(query: str) -> None:
    declaration = declared(query)
    assert declaration["source"]["schema"] == COLUMNS  # type: ignore[index]
    for reference in (declaration["app"], declaration["expectations"]):
        module, name = str(reference).split(":")
        assert callable(getattr(import_module(module), name))
