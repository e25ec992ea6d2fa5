"""Backends by name: which are known, what a name leads to, and that nothing is guessed or taken over."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from veridical.client import ConnectedMemory
from veridical.memory import LocalMemory, MemoryRecord, Principal, known_backends, load_backend
from veridical.memory.errors import Invalid, Refused
from veridical.stores import ignored_backends, registry
from veridical.stores.registry import BACKEND_VARIABLE, GROUP, Backend

SEED = "5e" * 32
MODULE = """
class Fine:
    @classmethod
    def from_env(cls):
        return cls()
class Strange:
    pass
"""

Installed = Callable[..., None]


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the test's own, and nothing else set."""
    for name in ("MEMORY_BACKEND", "ENDPOINTS", "READ_CONSISTENCY", "TIMEOUT_S", "PRINCIPAL_SEED"):
        monkeypatch.delenv(f"VERIDICAL_{name}", raising=False)
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(tmp_path / "a folder" / "brain.db"))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Puts a package beside the others that registers backends under these names."""

    def install(package: str, **backends: str) -> None:
        site = tmp_path / f"site-{package}"
        info = site / f"{package}-1.2.dist-info"
        info.mkdir(parents=True)
        (site / f"{package}.py").write_text(MODULE)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = "".join(f"{name} = {package}{where}\n" for name, where in backends.items())
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
        monkeypatch.setattr(sys, "path", [str(site), *sys.path])
        importlib.invalidate_caches()

    return install


def test_the_backends_of_the_product_are_listed() -> None:
    """Only what there is."""
    assert known_backends() == ["cluster", "local"]
    assert ignored_backends() == []


def test_a_local_memory_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By no name, by its name, and by that of the environment; where the environment says, signed by its principal."""
    for name, variable in ((None, ""), ("local", ""), (None, "local"), (None, " local ")):
        monkeypatch.setenv(BACKEND_VARIABLE, variable) if variable else monkeypatch.delenv(BACKEND_VARIABLE, False)
        memory = load_backend(name)
        assert isinstance(memory, LocalMemory)
        assert memory.path == tmp_path / "a folder" / "brain.db"
    monkeypatch.setenv("VERIDICAL_PRINCIPAL_SEED", SEED)
    signed = load_backend()
    assert isinstance(signed, LocalMemory)
    with signed:
        assert signed.write(MemoryRecord(text="a signed sentence")).author == Principal.from_hex(SEED).key_id


def test_a_cluster_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at its first call; without endpoints it is no memory at all."""
    with pytest.raises(Invalid, match=r"VERIDICAL_ENDPOINTS.*host:port"):
        load_backend("cluster")
    monkeypatch.setenv("VERIDICAL_ENDPOINTS", "127.0.0.1:1, 127.0.0.1:2")
    assert isinstance(load_backend("cluster"), ConnectedMemory)
    for variable, value in (("READ_CONSISTENCY", "sometimes"), ("TIMEOUT_S", "soon"), ("PRINCIPAL_SEED", "abc")):
        monkeypatch.setenv(f"VERIDICAL_{variable}", value)
        with pytest.raises(Invalid):
            load_backend("cluster")
        monkeypatch.delenv(f"VERIDICAL_{variable}")


@pytest.mark.parametrize("name", ["postgress", "LOCAL", " ", "veridical.embedded:LocalMemory"])
def test_an_unknown_name_is_refused_and_the_known_ones_are_told(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By argument and by environment; never the default instead."""
    for given, variable in ((name, "local"), (None, name)):
        monkeypatch.setenv(BACKEND_VARIABLE, variable)
        with pytest.raises(Invalid, match="known are cluster, local"):
            load_backend(given)


def test_a_missing_driver_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is known all the same; with the driver it opens."""
    backend = Backend("veridical.embedded", "LocalMemory", ("no_such_driver",), "postgres")
    monkeypatch.setitem(registry.BUILT_IN, "postgres", backend)
    assert "postgres" in known_backends()
    with pytest.raises(Invalid, match=r"no_such_driver.*pip install 'veridical\[postgres\]'"):
        load_backend("postgres")
    monkeypatch.setitem(registry.BUILT_IN, "postgres", backend._replace(drivers=("sqlite3",)))
    assert isinstance(load_backend("postgres"), LocalMemory)


def test_other_packages_add_backends(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded when they are chosen, and refused by name when they are none."""
    installed("attic", attic=":Fine", broken=":Missing", gone="_gone:Fine", strange=":Strange")
    assert known_backends() == ["attic", "broken", "cluster", "gone", "local", "strange"]
    monkeypatch.setenv(BACKEND_VARIABLE, "attic")
    assert type(load_backend()).__name__ == "Fine"
    for name in ("broken", "gone"):
        with pytest.raises(Invalid, match=rf"{name}.*attic 1\.2 cannot be loaded"):
            load_backend(name)
    with pytest.raises(Invalid, match=r"strange.*no from_env"):
        load_backend("strange")


def test_no_package_takes_over_a_name(installed: Installed) -> None:
    """Neither one of the product's own, nor another package's; what was ignored is told."""
    installed("burglar", local=":Fine", attic=":Fine", mine=":Fine")
    installed("owner", attic=":Fine")
    assert known_backends() == ["cluster", "local", "mine"]
    assert isinstance(load_backend("local"), LocalMemory)
    with pytest.raises(Invalid):
        load_backend("attic")
    assert sorted(ignored_backends()) == [
        "attic of burglar 1.2: registered more than once",
        "attic of owner 1.2: registered more than once",
        "local of burglar 1.2: the product's own backend of that name stays",
    ]


def test_naming_backends_loads_none() -> None:
    """What is not chosen is not imported."""
    loaded = "print('veridical.embedded' in sys.modules)"
    code = f"import sys; from veridical.memory import known_backends; known_backends(); {loaded}"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_guarded_store_stays_guarded_by_whatever_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's principal is bound by its grants as any other."""
    monkeypatch.setenv("VERIDICAL_PRINCIPAL_SEED", SEED)
    with LocalMemory.from_env() as memory:
        memory.enroll(Principal.from_hex(SEED), grants={"*": ["admin", "read", "write"]})
        memory.write(MemoryRecord(text="a sentence"))
        assert len(memory.recall("sentence")) == 1
    monkeypatch.delenv("VERIDICAL_PRINCIPAL_SEED")
    with LocalMemory.from_env() as memory, pytest.raises(Refused, match="not_granted"):
        memory.recall("sentence")


# --- where a store lies -----------------------------------------------------------------------------------------------


def test_paths_in_settings_mean_what_a_shell_would_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~`, relative paths, and spaces; the same file as when it is given."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    meant = {
        "~/my brain/b.db": tmp_path / "my brain" / "b.db",
        "some/where.db": tmp_path / "some" / "where.db",
        f" {tmp_path}/x.db ": tmp_path / "x.db",
        "": tmp_path / ".config" / "veridical" / "brain.db",
    }
    for value, path in meant.items():
        monkeypatch.setenv("VERIDICAL_MEMORY_STORE", value)
        with LocalMemory.from_env() as memory:
            memory.write(MemoryRecord(text=f"kept in {value!r}"))
            assert memory.path == path.resolve()
        assert path.exists()
        with LocalMemory(path) as memory:
            assert len(list(memory.all())) == 1
