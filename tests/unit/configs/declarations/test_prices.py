"""Price lists: what users write, and what the cost model gets."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from holdfast.configs.declarations.prices import PriceList
from holdfast.configs.project import ProjectConfig, check
from holdfast.ft_policies.costs.prices import Prices, Usage
from tests.builders.projects import a_project, stream_yaml

REPOSITORY = Path(__file__).parents[4]
EXAMPLES = ("kubernetes_share", "on_demand", "spot", "started_hours")
WRITTEN = {
    "currency": "EUR",
    "date": "2026-02-03",
    "instance_hour": 0.1,
    "cpu_core_hour": 0.2,
    "memory_gb_hour": 0.3,
    "put_per_thousand": 0.4,
    "get_per_thousand": 0.5,
    "storage_gb_month": 0.6,
    "traffic_gb": 0.7,
    "started_hours": True,
}


def a_problem(root: Path, **changes: object) -> tuple[str, str]:
    """Field and message of the only thing that is wrong with a price list."""
    a_project(root, clicks=stream_yaml(prices="ours"))
    (root / "configs" / "prices").mkdir()
    text = yaml.safe_dump(WRITTEN | changes)
    (root / "configs" / "prices" / "ours.yaml").write_text(text)
    [problem] = check(root)
    return problem.field, problem.message


def of_example(name: str) -> Prices:
    return ProjectConfig.load(REPOSITORY).prices[name].prices()


def test_every_field_but_the_date_reaches_the_cost_model() -> None:
    prices = PriceList.model_validate(WRITTEN).prices()
    assert asdict(prices) == {name: value for name, value in WRITTEN.items() if name != "date"}


def test_the_examples_are_there_dated_and_said_to_be_examples() -> None:
    lists = ProjectConfig.load(REPOSITORY).prices
    assert set(EXAMPLES) <= lists.keys()
    for name in EXAMPLES:
        text = (REPOSITORY / "configs" / "price_lists" / f"{name}.yaml").read_text()
        assert "example figures" in text
        assert f"date: {lists[name].date}" in text


def test_spot_is_cheaper_than_on_demand() -> None:
    usage = Usage(instances=1.0, puts_per_second=1.0)
    assert of_example("spot").per_hour(usage) < of_example("on_demand").per_hour(usage)


def test_a_share_of_a_cluster_charges_cores_and_memory_and_no_instance() -> None:
    prices = of_example("kubernetes_share")
    assert prices.per_hour(Usage(instances=1.0)) == 0.0
    assert prices.per_hour(Usage(cpu_cores=1.0)) > 0.0
    assert prices.per_hour(Usage(memory_bytes=1e9)) > 0.0


def test_only_the_list_of_that_name_bills_started_hours() -> None:
    assert [name for name in EXAMPLES if of_example(name).started_hours] == ["started_hours"]


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"instance_hour": -0.1}, "instance_hour", "0"),
        ({"traffic_gb": "0.01"}, "traffic_gb", "number"),
        ({"currency": "euro"}, "currency", "a currency code such as USD"),
        ({"started_hours": "yes"}, "started_hours", "true or false"),
        ({"memory_gb_hours": 0.1}, "memory_gb_hours", "did you mean memory_gb_hour?"),
        ({"instance_hour": 0.0}, "started_hours", "instance_hour is 0"),
    ],
)
def test_a_mistake_is_named(
    tmp_path: Path, changes: dict[str, object], field: str, message: str
) -> None:
    named, said = a_problem(tmp_path, **changes)
    assert named == field
    assert message in said
