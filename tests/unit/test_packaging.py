"""The root of the checkout is the package `veridical`: what is shipped, what is listed, and what must not be there."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = (ROOT / "requirements.lock", ROOT / "bench" / "requirements.lock")
WITHOUT_CODE = {"bench", "docs", "examples", "tests", "typings", "compose"}
MADE_HERE = {"build", "dist", "__pycache__"}
FILES = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "__init__.py",
    "py.typed",
    "pyproject.toml",
    "requirements.lock",
}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def packages(project: dict[str, Any]) -> list[str]:
    return project["tool"]["setuptools"]["packages"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from a copy of the tree, so that nothing that an earlier build left can slip in."""
    copy = tmp_path_factory.mktemp("checkout") / "veridical"
    unwanted = shutil.ignore_patterns(".*", *MADE_HERE, "*.egg-info", "node_modules")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=unwanted)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=100)
    [archive] = (copy / "dist").glob("*.whl")
    return set(zipfile.ZipFile(archive).namelist())


def found_packages() -> list[str]:
    """Every folder with an `__init__.py`, as a dotted name under `veridical`."""
    rooms = (entry for entry in visible(ROOT) if entry.is_dir() and entry.name not in WITHOUT_CODE | MADE_HERE)
    inits = (init for room in rooms for init in room.rglob("__init__.py"))
    return ["veridical", *(f"veridical.{'.'.join(init.parent.relative_to(ROOT).parts)}" for init in inits)]


def visible(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if not entry.name.startswith(".")]


def module_file(path: Path) -> str:
    """Where the wheel holds a file of the checkout."""
    return f"veridical/{path.relative_to(ROOT).as_posix()}"


def test_every_package_is_listed_in_order(packages: list[str]) -> None:
    """A room that is not in `packages` would work here and be missing in the wheel."""
    assert packages == sorted(found_packages())


def test_every_room_has_a_name_plate_for_type_checkers(packages: list[str]) -> None:
    """`typings/veridical` links each room and the two files beside them, and nothing else."""
    plate = ROOT / "typings" / "veridical"
    rooms = {name.split(".")[1] for name in packages if name.count(".") == 1}
    assert {link.name for link in visible(plate)} == rooms | {"__init__.py", "py.typed"}
    for link in visible(plate):
        assert link.readlink() == Path("..", "..", link.name)
        assert link.resolve().exists()


def test_nothing_is_stray_at_the_root(packages: list[str]) -> None:
    """Rooms and known files only: whatever lies at the root could be imported as part of the package."""
    rooms = {name.split(".")[1] for name in packages if name != "veridical"}
    names = {entry.name for entry in visible(ROOT) if not entry.name.endswith(".egg-info")} - MADE_HERE
    empty = {name for name in names if (ROOT / name).is_dir() and not any((ROOT / name).iterdir())}
    assert names - empty - rooms - WITHOUT_CODE == FILES


def test_the_root_is_a_docstring() -> None:
    """`import veridical` runs nothing: the doors are its rooms."""
    [statement] = ast.parse((ROOT / "__init__.py").read_text()).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Constant)


def test_every_room_says_what_it_makes_true(packages: list[str]) -> None:
    """Each `__init__.py` begins with its sentence."""
    for name in packages:
        init = ROOT.joinpath(*name.split(".")[1:], "__init__.py")
        assert ast.get_docstring(ast.parse(init.read_text())), f"{init} has no docstring"


def test_rooms_import_each_other_relatively(packages: list[str]) -> None:
    """`import veridical.…` inside the package would tie it to an installed copy."""
    for name in packages:
        for module in ROOT.joinpath(*name.split(".")[1:]).glob("*.py"):
            assert not re.search(r"^\s*(from|import) veridical\b", module.read_text(), re.MULTILINE), module


def test_the_wheel_holds_only_the_package(wheel: set[str]) -> None:
    """No bare `log/` or `node/` beside `veridical/`, and no tests in it."""
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"veridical"}
    assert not {name for name in wheel if name.split("/")[1] in WITHOUT_CODE | MADE_HERE}


def test_the_wheel_holds_the_whole_package(wheel: set[str], packages: list[str]) -> None:
    """Every module, the typing marker, the wire contract and its type stubs."""
    folders = [ROOT.joinpath(*name.split(".")[1:]) for name in packages]
    expected = {ROOT / "py.typed"}
    for folder in folders:
        expected |= {*folder.glob("*.py"), *folder.glob("*.pyi"), *folder.glob("*.proto")}
    assert {module_file(path) for path in expected} <= wheel


@pytest.mark.parametrize("path", LOCKS, ids=["root", "bench"])
def test_a_lock_names_no_host_and_pins_by_hash(path: Path) -> None:
    """A lock installs from wherever pip is configured to look, and only what was locked."""
    lock = path.read_text()
    requirements = re.findall(r"^[A-Za-z0-9].*(?:\\\n .*)+", lock, re.MULTILINE)
    assert "://" not in lock
    assert len(requirements) == len(re.findall(r"^[A-Za-z0-9]", lock, re.MULTILINE))
    for requirement in requirements:
        assert re.match(r"[\w.-]+==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement


def test_every_dependency_is_locked_and_justified(project: dict[str, Any]) -> None:
    """A dependency without a line in docs/dependencies.md has no reason to be here."""
    groups = project["dependency-groups"]
    declared: list[str] = [*project["project"]["dependencies"], *groups["dev"], *groups["bench"]]
    locked = {name for lock in LOCKS for name in re.findall(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE)}
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    for name in (re.split(r"[^\w.-]", requirement)[0] for requirement in declared):
        assert name.lower() in locked
        assert f"| {name} |" in reasons
