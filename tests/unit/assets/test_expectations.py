"""Great Expectations can be imported in the processes that Dagster starts for its runs."""

import subprocess
import sys

RUN_WORKER = """
import sys
assert sys.modules["__main__"].__spec__ is None
assert not hasattr(sys.modules["__main__"], "__file__")
from holdfast.assets.expectations import import_expectations
import_expectations()
from great_expectations import ExpectationSuite
assert not hasattr(sys.modules["__main__"], "__file__")
print("imported", ExpectationSuite.__name__)
"""


def test_a_process_without_a_main_file_imports_great_expectations_and_goes_on() -> None:
    worker = subprocess.run(
        [sys.executable, "-c", RUN_WORKER], capture_output=True, text=True, check=False
    )
    assert (worker.returncode, worker.stdout) == (0, "imported ExpectationSuite\n"), worker.stderr
