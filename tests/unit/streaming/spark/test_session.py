import pytest

from holdfast.streaming.spark.session import ENVIRONMENT, PARALLEL, choose_collector


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("memory", ["900000k", "512m", "1g", "2100m", "4G"])
def test_a_moderate_heap_has_the_parallel_one(memory: str) -> None:
    assert choose_collector(memory) == PARALLEL


@pytest.mark.parametrize("memory", ["4097m", "5g", "64G", "1t"])
def test_a_large_heap_has_what_java_chooses(memory: str) -> None:
    assert choose_collector(memory) == ""


@pytest.mark.parametrize("chosen", ["-XX:+UseSerialGC", "-Da=b -XX:+UseG1GC", "-XX:-UseParallelGC"])
def test_a_user_s_choice_stands(chosen: str) -> None:
    assert choose_collector("1g", "", chosen) == ""


def test_other_options_are_no_choice() -> None:
    assert choose_collector("1g", "-XX:+UseStringDeduplication -Xlog:gc -XX:MaxGCPauseMillis=50")


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_what_is_read_from_the_environment_is_a_choice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "-XX:+UseZGC")
    assert choose_collector("1g") == ""
