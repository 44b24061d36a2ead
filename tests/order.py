"""The order of test files in a run: the longest first, so that at the end short ones keep both workers busy."""

LONGEST_FIRST = (
    "tests/integration/observation/test_doctor.py",
    "tests/e2e/test_wheel.py",
    "tests/e2e/test_restores.py",
    "tests/e2e/test_killed_drivers.py",
    "tests/e2e/test_applications.py",
    "tests/e2e/test_cli_demo.py",
    "tests/e2e/test_lost_storage.py",
    "tests/e2e/test_unreachable_storage.py",
    "tests/e2e/test_paused_drivers.py",
    "tests/e2e/test_full_and_locked.py",
    "tests/e2e/test_kept_projects.py",
    "tests/integration/orchestration/test_cli_services.py",
    "tests/integration/streaming/test_epoch_query.py",
    "tests/integration/orchestration/test_cli_restore.py",
    "tests/integration/orchestration/test_cli_snapshots.py",
    "tests/integration/orchestration/test_web.py",
    "tests/integration/orchestration/test_dagster_commands.py",
    "tests/integration/resources/test_vault_spark.py",
    "tests/integration/orchestration/test_killed_commands.py",
    "tests/integration/streaming/test_standby_queries.py",
    "tests/integration/resources/test_control_races.py",
    "tests/integration/streaming/test_session.py",
    "tests/integration/streaming/test_sending.py",
    "tests/integration/streaming/test_worker_memory.py",
    "tests/integration/resources/test_vault_incremental.py",
    "tests/integration/apps/test_word_count_stream.py",
    "tests/model/test_model.py",
    "tests/contracts/control_store/test_model.py",
)


def file_rank(nodeid: str) -> int:
    """The place of a test's file; files that are not listed come last, as they were collected."""
    file = nodeid.partition("::")[0]
    return LONGEST_FIRST.index(file) if file in LONGEST_FIRST else len(LONGEST_FIRST)
