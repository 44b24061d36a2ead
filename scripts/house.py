"""The state of the house: modules and lines a folder, forbidden words and names, bare imports, import contracts.

`make house` shows all of it; `--lint` (part of `make lint`) shows only what is wrong. Exit code 1 if a folder
has more than 17 modules, a module more than 450 lines, a forbidden word is left in source, messages, docs or tests,
a variable is called `one` or `found`, a function `located` or `kept`, an import names a floor without
`holdfast.`, or a contract is broken.
"""

import argparse
import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOORS = (
    "orchestration",
    "assets",
    "observation",
    "streaming",
    "resources",
    "configs",
    "ft_policies",
    "apps",
)
SOURCE = (*FLOORS, "benchmarks", "scripts")
# Text that is not Python, and is read by users or developers all the same.
PROSE = ("*.md", "*.yaml", "*.toml", "*.properties", "Makefile", "scripts/*", ".ci/*")
MAX_MODULES = 17
MAX_LINES = 450

# HOUSE section 7: components are the subjects of sentences, and each thing has one word.
FORBIDDEN = {
    "nobody": "name the component, or use the passive",
    "somebody": "name the component or role",
    "anybody": "name the component or role",
    "someone": "name the component or role",
    "anyone": "name the component or role",
    "everyone": "name the components or roles",
    "everybody": "name the components or roles",
    "whoever": "name the component or role",
    "people": "the operator, the user",
    "person": "the operator, the user",
    "blow": "fault",
    "blows": "faults",
    "foresee": "plan",
    "foreseen": "planned",
    "foretell": "predict",
    "foretold": "predicted",
    "patiently": "with retries",
    "told": "reported; as a name, the noun",
    "wish": "request",
    "anew": "again",
    "changes of mind": "decisions",
    "last words": "log tail",
    "sees off": "stops",
    "see off": "stop",
    "as_it_is": "status_sentence",
    "of old": "old",
    "lately": "recently, or the time",
    "of late": "recently, or the time",
    "nowadays": "now",
}
# Names that the product had: its own code cannot have them any more, its tests could.
OLD_NAMES = {
    "is_level": "has_caught_up",
    "a_level": "caught up",
    "_demand": "require",
    "wishes": "requests",
    "sinksetup as world": "SinkSetup",
}
# HOUSE section 7: a variable is named for what it holds.
VAGUE_NAMES = frozenset({"one", "found", "seen", "known", "told"})
# HOUSE section 7: a function is named for what it does; a past participle is a record of what happened.
IRREGULAR = frozenset(
    {"begun", "built", "chosen", "done", "gone", "held", "kept", "led", "left", "lost", "made"}
    | {"meant", "met", "paid", "sent", "shown", "stood", "stuck", "taken", "written"}
    | VAGUE_NAMES
)
VERBS_IN_ED = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"})
# A line that must keep an old word (the hidden alias of an option, for one version) says so.
ALLOWED = "house: old word"
BARE_IMPORT = re.compile(
    rf"(?:^\s*(?:from|import) |\"-m\", \"|import sys, )(?:{'|'.join(FLOORS)})\b"
)


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file of the product."""

    path: Path
    lines: int

    @property
    def folder(self) -> str:
        """Its room."""
        return self.path.parent.as_posix()


def list_files(*patterns: str) -> list[Path]:
    """List the tracked and new files that match, without links and ignored ones."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = (Path(line) for line in sorted(set(shown.stdout.splitlines())))
    return [path for path in paths if (ROOT / path).is_file()]


def list_modules(folders: tuple[str, ...]) -> list[Module]:
    """List the modules of these folders; an empty `__init__` does not count."""
    files = [path for path in list_files("*.py") if path.parts[0] in folders]
    counted = (Module(path, len((ROOT / path).read_text().splitlines())) for path in files)
    return [module for module in counted if module.lines > 0]


def find_words(paths: list[Path], forbidden: Mapping[str, str] = FORBIDDEN) -> Iterator[str]:
    """Find each forbidden word with its place and what to write instead."""
    words = "|".join(re.escape(word) for word in forbidden)
    pattern = re.compile(rf"(?<![a-z])({words})(?![a-z])", re.IGNORECASE)
    for path in paths:
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            if ALLOWED in line:
                continue
            for match in pattern.finditer(line):
                word = match.group(1).lower()
                yield f"{path}:{number}: {word!r}: write {forbidden[word]!r}"


def find_vague_names(paths: list[Path]) -> Iterator[str]:
    """Find variables, fields and parameters whose name does not say what they hold."""
    for path in paths:
        source = (ROOT / path).read_text()
        lines = source.splitlines()
        for number, name in sorted(_bound_names(ast.parse(source))):
            if name in VAGUE_NAMES and ALLOWED not in lines[number - 1]:
                yield f"{path}:{number}: variable {name!r}: name what it holds"


def _bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def find_participles(paths: list[Path]) -> Iterator[str]:
    """Find functions whose whole name is a past participle; a property may have one."""
    for path in paths:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
            if _is_participle(node.name.strip("_")) and not is_property:
                yield f"{path}:{node.lineno}: function {node.name!r}: begin with a verb"


def _is_participle(name: str) -> bool:
    return name in IRREGULAR or (
        name.endswith("ed") and "_" not in name and name not in VERBS_IN_ED
    )


def find_bare_imports(paths: list[Path]) -> Iterator[str]:
    """Find imports by a folder's bare name: a module must not exist twice."""
    for path in paths:
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            if BARE_IMPORT.search(line):
                yield f"{path}:{number}: {line.strip()!r}: import it as holdfast.…"


def find_sizes(modules: list[Module]) -> Iterator[str]:
    """Find folders with too many modules and modules with too many lines."""
    for folder, count in Counter(module.folder for module in modules).items():
        if count > MAX_MODULES:
            yield f"{folder}: {count} modules, at most {MAX_MODULES}"
    for module in modules:
        if module.lines > MAX_LINES:
            yield f"{module.path}: {module.lines} lines, at most {MAX_LINES}"


def find_problems(modules: list[Module]) -> dict[str, list[str]]:
    """Find everything that is wrong, by kind."""
    this = Path(__file__).resolve().relative_to(ROOT)
    source = [path for path in list_files("*.py") if path.parts[0] in SOURCE and path != this]
    own_code = [path for path in source if path.parts[0] != "apps"]  # where queries name functions
    tests = list_files("tests/*.py")
    prose = [path for path in list_files(*PROSE) if path.parts[0] != "tests" and path != this]
    return {
        "sizes": list(find_sizes(modules)),
        "forbidden words": [
            *find_words(sorted({*source, *prose})),
            *find_words(tests, FORBIDDEN | OLD_NAMES),
        ],
        "vague names": list(find_vague_names(source + tests)),
        "participles": list(find_participles(own_code)),
        "bare imports": list(find_bare_imports(list_files("*.py"))),
    }


def show_sizes(modules: list[Module]) -> None:
    """Print the folders with their modules and lines, and the sizes of all modules."""
    folders: dict[str, list[int]] = {}
    for module in modules:
        folders.setdefault(module.folder, []).append(module.lines)
    print(f"{'folder':<40}{'modules':>8}{'lines':>8}{'longest':>9}")
    for folder, lines in sorted(folders.items()):
        print(f"{folder:<40}{len(lines):>8}{sum(lines):>8}{max(lines):>9}")
    sizes = sorted(module.lines for module in modules)
    longest = max(modules, key=lambda module: module.lines)
    p90 = sizes[int(0.9 * (len(sizes) - 1))]
    most = max(folders, key=lambda folder: len(folders[folder]))
    print(f"\nmodules {len(sizes)}, lines {sum(sizes)}")
    print(
        f"median {statistics.median(sizes):.0f}, p90 {p90}, longest {longest.lines} ({longest.path})"
    )
    print(f"most modules in one folder: {len(folders[most])} ({most})")


def keep_contracts() -> bool:
    """Run import-linter, print its summary, and say whether every contract is kept."""
    linter = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([linter], cwd=ROOT, check=False, capture_output=True, text=True)
    print(
        *[line for line in run.stdout.splitlines() if "KEPT" in line or "BROKEN" in line], sep="\n"
    )
    return run.returncode == 0


def main() -> int:
    """Show the house; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lint", action="store_true", help="only what is wrong, without contracts")
    lint = parser.parse_args().lint
    modules = list_modules(FLOORS)
    problems = find_problems(modules)
    if not lint:
        show_sizes(modules)
    for kind, lines in problems.items():
        if lines or not lint:
            print(f"{kind}: {len(lines)}", *lines, sep="\n  ")
    kept = lint or keep_contracts()
    return 0 if kept and not any(problems.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
