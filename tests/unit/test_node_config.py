"""What a node is told: files, flags and environment, and what each mistake is answered with."""

from pathlib import Path

import pytest

from veridical.lease.etcd import EtcdLeaseStore
from veridical.lease.sources import SqliteLeaseStore
from veridical.node.addresses import is_loopback, is_wildcard, split
from veridical.node.config import ConfigError, load
from veridical.node.main import main

FILE = """
name = "n2"
cluster = "home"
data = "/data"
endpoint = "127.0.0.1:7401"
http = "127.0.0.1:7501"

[peers]
n1 = "127.0.0.1:7400"
n2 = "127.0.0.1:7401"

[timings]
heartbeat_ms = 50
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(FILE)
    return path


def test_flags_go_before_the_file_and_the_file_before_the_environment(file: Path):
    """Three places, one order."""
    environment = {"VERIDICAL_NODE_NAME": "n3", "VERIDICAL_NODE_LOG_LEVEL": "debug"}
    config = load(file, {"cluster": "flags", "http": None}, environment)
    assert (config.name, config.cluster, config.log_level) == ("n2", "flags", "debug")
    assert config.http == "127.0.0.1:7501"
    assert config.timings.heartbeat_ms == 50


def test_it_listens_at_its_endpoint_unless_told_otherwise(file: Path):
    """Where others reach it and where it listens differ only behind mapped ports."""
    assert load(file, {}, {}).bind == "127.0.0.1:7401"
    assert load(file, {"listen": "127.0.0.1:9"}, {}).bind == "127.0.0.1:9"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"endpoint": "0.0.0.0:7400"}, "endpoint = '0.0.0.0:7400' names every address"),
        ({"endpoint": "[::]:7400"}, "set endpoint to the host:port at which the others reach it"),
        ({"listen": "0.0.0.0:7400"}, "set tls.certificate, tls.key and tls.authority"),
        ({"endpoint": "10.0.0.7:7400"}, "can be reached from other machines, which needs TLS"),
        ({"http": "10.0.0.7:7500"}, "http = '10.0.0.7:7500' can be reached from other machines"),
        ({"peers": {"n2": "*:7400"}}, "names every address; write the one at which it is reached"),
        ({"peers": {"n1": "127.0.0.1:1"}}, "peers must name this node too"),
        ({"endpoint": "127.0.0.1"}, "'127.0.0.1' is not host:port"),
        ({"endpoint": "::1:7400"}, "an IPv6 host stands in brackets"),
        ({"endpoint": "127.0.0.1:70000"}, "the port is not a number up to 65535"),
        ({"log_level": "loud"}, "one of debug, info, warning, error"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_mistake_is_named_with_what_to_set(file: Path, flags: dict[str, object], said: str):
    """Nothing starts on a configuration that could not work, or would not be safe."""
    with pytest.raises(ConfigError) as caught:
        load(file, flags, {})
    assert said in str(caught.value)


def test_a_process_has_a_data_directory():
    """A node in memory is for embedded use; a process that forgot where to write would lose what it acknowledged."""
    with pytest.raises(ConfigError, match="name a directory"):
        load(None, {}, {})


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path):
    """The message begins with the path."""
    broken = tmp_path / "broken.toml"
    broken.write_text("name = ")
    for path in (tmp_path / "none.toml", broken):
        with pytest.raises(ConfigError, match=str(path)):
            load(path, {}, {})


def test_check_says_whether_it_can_be_used(file: Path, capsys: pytest.CaptureFixture[str]):
    """`--check` starts nothing: 0 and a line, or 2 and the reason."""
    assert main(["--config", str(file), "--check"]) == 0
    assert "n2 of home at 127.0.0.1:7401" in capsys.readouterr().out
    assert main(["--config", str(file), "--check", "--listen", "0.0.0.0:7400"]) == 2
    assert "needs TLS" in capsys.readouterr().err
    assert main(["--check", "--peer", "nonsense"]) == 2
    assert "write it as NAME=HOST:PORT" in capsys.readouterr().err


def test_tls_files_are_looked_at_by_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With TLS another address is allowed; files that are missing are named."""
    file = tmp_path / "node.toml"
    missing = tmp_path / "node.pem"
    tls = "".join(f'{name} = "{missing}"\n' for name in ("certificate", "key", "authority"))
    file.write_text(f'data = "/data"\nendpoint = "10.0.0.7:7400"\n[tls]\n{tls}')
    assert main(["--config", str(file), "--check"]) == 2
    assert f"{missing}: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "loopback", "wildcard"),
    [
        ("127.0.0.1:1", True, False),
        ("[::1]:1", True, False),
        ("localhost:1", True, False),
        ("0.0.0.0:1", False, True),
        ("[::]:1", False, True),
        ("*:1", False, True),
        ("node-1.internal:1", False, False),
        ("192.168.0.1:1", False, False),
    ],
)
def test_addresses(address: str, loopback: bool, wildcard: bool):
    """A name that is not localhost may lead anywhere, and so counts as reachable."""
    assert split(address)[1] == 1
    assert (is_loopback(address), is_wildcard(address)) == (loopback, wildcard)


def test_a_lease_store_outside_is_told_by_name(tmp_path: Path):
    """Members alone by default; an etcd by its URLs, a file by its path, and a clear word for what is missing."""
    told = {"name": "n1", "data": str(tmp_path)}
    assert load(None, told, {}).lease.opened() is None
    etcd = load(None, told | {"lease": {"source": "etcd", "endpoints": ["http://127.0.0.1:2379"]}}, {})
    assert etcd.lease.opened() == EtcdLeaseStore(["http://127.0.0.1:2379"])
    file = load(None, told | {"lease": {"source": "sqlite", "path": str(tmp_path / "lease.db")}}, {})
    assert file.lease.opened() == SqliteLeaseStore(tmp_path / "lease.db")
    for wrong, word in (
        ({"source": "etcd"}, "name at least one endpoint"),
        ({"source": "etcd", "endpoints": ["127.0.0.1"]}, "is not the URL of an etcd"),
        ({"source": "sqlite"}, "lease.path"),
        ({"source": "zookeeper"}, "'quorum', 'etcd' or 'sqlite'"),
    ):
        with pytest.raises(ConfigError, match=word):
            load(None, told | {"lease": wrong}, {})
