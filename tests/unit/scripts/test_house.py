"""`make house` fails for each kind of thing that it looks for, and says where that is and what to do."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[3] / "scripts" / "house.py"
CONTRACT = """
[tool.importlinter]
root_package = "villa"
[[tool.importlinter.contracts]]
name = "the cellar knows nothing of the attic"
type = "forbidden"
source_modules = ["villa.cellar"]
forbidden_modules = ["villa.attic"]
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A repository with one module in which nothing is wrong, its folder named as a floor is."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(HOUSE, tmp_path / "scripts" / "house.py")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    write(tmp_path, "configs/units.py", "SECONDS = 1.0\n")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def inspect(root: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, str(root / "scripts" / "house.py"), *options]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_a_house_in_order_is_passed_without_a_word(house: Path) -> None:
    assert inspect(house, "--lint") == (0, "")


@pytest.mark.parametrize(
    ("path", "text", "finding"),
    [
        ("configs/long.py", "x = 1\n" * 451, "configs/long.py: 451 lines, at most 450"),
        ("configs/a.py", "# Nobody does.\n", "configs/a.py:1: 'nobody'"),  # house: old word
        ("docs/page.md", "Well\n\ndone anew.\n", "docs/page.md:3: 'anew'"),  # house: old word
        ("pyproject.toml", "# as lately\n", "pyproject.toml:1: 'lately'"),  # house: old word
        ("configs/l.properties", "# by people\n", "l.properties:1: 'people'"),  # house: old word
        ("scripts/run", "# it was told\n", "scripts/run:1: 'told'"),  # house: old word
        ("tests/test_a.py", "is_level = 1\n", "write 'has_caught_up'"),  # house: old word
        ("configs/a.py", "found = 1\n", "configs/a.py:1: variable 'found'"),
        ("configs/a.py", "def a(seen): ...\n", "configs/a.py:1: variable 'seen'"),
        ("tests/test_a.py", "[one for one in ()]\n", "tests/test_a.py:1: variable 'one'"),
        ("configs/a.py", "def _located(): ...\n", "configs/a.py:1: function '_located'"),
        ("configs/a.py", "class A:\n    def kept(self): ...\n", "a.py:2: function 'kept'"),
        ("configs/a.py", "import resources\n", "import it as holdfast.…"),
    ],
)
def test_what_is_wrong_is_listed_with_its_place(
    house: Path, path: str, text: str, finding: str
) -> None:
    write(house, path, text)
    code, shown = inspect(house, "--lint")
    assert code == 1
    assert finding in shown
    assert len(shown.splitlines()) == 2, "the kind with its count, and the place"


def test_a_folder_may_have_seventeen_modules(house: Path) -> None:
    for number in range(16):
        write(house, f"configs/module{number}.py", "x = 1\n")
    assert inspect(house, "--lint") == (0, "")
    write(house, "configs/module16.py", "x = 1\n")
    assert inspect(house, "--lint") == (1, "sizes: 1\n  configs: 18 modules, at most 17\n")


def test_a_line_may_keep_an_old_word_if_it_says_so(house: Path) -> None:
    write(house, "configs/a.py", "blow = found = 1  # house: old word\n")
    assert inspect(house, "--lint") == (0, "")


@pytest.mark.parametrize(
    "name", ["need", "resolve_paths", "covered_tier", "_find_lost_packs", "exceed"]
)
def test_a_function_may_be_called_by_a_verb_or_a_noun(house: Path, name: str) -> None:
    write(house, "configs/a.py", f"def {name}(): ...\n")
    assert inspect(house, "--lint") == (0, "")


def test_a_property_may_be_a_participle(house: Path) -> None:
    write(house, "configs/a.py", "class A:\n    @property\n    def covered(self): ...\n")
    assert inspect(house, "--lint") == (0, "")


@pytest.mark.parametrize(
    ("line", "code", "verdict"), [("", 0, "KEPT"), ("import villa.attic\n", 1, "BROKEN")]
)
def test_without_lint_contracts_count_and_sizes_are_shown(
    house: Path, line: str, code: int, verdict: str
) -> None:
    write(house, "pyproject.toml", CONTRACT)
    write(house, "villa/__init__.py", "")
    write(house, "villa/attic.py", "x = 1\n")
    write(house, "villa/cellar.py", line)
    returned, shown = inspect(house)
    assert returned == code
    assert f"the cellar knows nothing of the attic {verdict}" in shown
    assert "longest 1 (configs/units.py)" in shown
