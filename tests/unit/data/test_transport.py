"""Tests of HTTP transfers: one version of a file, limits on size and rate, and only allowed networks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from epigram.core.errors import DataError, SourceUnavailableError
from epigram.data.sources import access
from epigram.data.sources.http import download, part_path
from epigram.data.sources.settings import DownloadSettings
from tests.support.file_server import Server, serving

OLD, NEW = b"old row\n" * 500, b"new row\n" * 500


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def settings(*, tries: int = 1, timeout: float = 5.0, min_rate: int = 0) -> DownloadSettings:
    return DownloadSettings(tries=tries, timeout=timeout, min_rate=min_rate)


def broken_off(server: Server, target: Path, headers: dict[str, str]) -> None:
    """Download the first half of the old file; the connection then breaks."""
    server.files["a"], server.headers["a"], server.troubles["a"] = OLD, headers, ["cut"]
    with pytest.raises(SourceUnavailableError):
        download(server.address("a"), target, settings())
    assert part_path(target).read_bytes() == OLD[: len(OLD) // 2]


@pytest.mark.parametrize("headers", [{}, {"ETag": '"1"'}])
def test_a_file_without_a_checksum_is_fetched_anew(server: Server, tmp_path: Path, headers: dict[str, str]) -> None:
    target = tmp_path / "a"
    broken_off(server, target, headers)
    server.files["a"] = NEW
    assert not download(server.address("a"), target, settings())
    assert target.read_bytes() == NEW
    assert server.asked[-1] == ("a", None)


def test_a_file_with_a_checksum_is_continued(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a"
    broken_off(server, target, {})
    assert download(server.address("a"), target, settings(), resume=True)
    assert target.read_bytes() == OLD
    assert server.asked[-1] == ("a", f"bytes={len(OLD) // 2}-")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a"
    broken_off(server, target, {})
    server.troubles["a"] = ["no range"]
    assert not download(server.address("a"), target, settings(), resume=True)
    assert target.read_bytes() == OLD


def test_a_server_that_sends_a_wrong_part_is_noticed(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a"
    server.files["a"], server.troubles["a"] = NEW, ["unasked range"]
    download(server.address("a"), target, settings(tries=2), pause=0.01, resume=True)
    assert target.read_bytes() == NEW
    assert len(server.asked) == 2


def test_the_pause_doubles_with_each_try_up_to_its_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["a"], server.troubles["a"], paused = OLD, ["500"] * 7, list[float]()
    monkeypatch.setattr("epigram.data.sources.http.time.sleep", paused.append)
    with pytest.raises(SourceUnavailableError, match="7 tries"):
        download(server.address("a"), tmp_path / "a", settings(tries=7))
    assert paused == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


@pytest.mark.parametrize("trouble", ["none", "no length"])
def test_a_file_above_its_size_is_refused(server: Server, tmp_path: Path, trouble: str) -> None:
    server.files["a"], server.troubles["a"] = OLD, [trouble] * 2
    with pytest.raises(DataError, match=r"/a is larger than 3,999 bytes; .* increase max_bytes"):
        download(server.address("a"), tmp_path / "a", settings(), max_bytes=len(OLD) - 1)
    assert list(tmp_path.iterdir()) == []
    download(server.address("a"), tmp_path / "a", settings(), max_bytes=len(OLD))
    assert (tmp_path / "a").read_bytes() == OLD


def test_a_server_below_the_lowest_rate_is_given_up(server: Server, tmp_path: Path) -> None:
    """Half of the file arrives at once, then 500 bytes a second: only the second window is too slow."""
    server.files["a"], server.troubles["a"] = OLD, ["drip", "drip"]
    start = time.monotonic()
    with pytest.raises(SourceUnavailableError, match="slower than 2,000 bytes per second"):
        download(server.address("a"), tmp_path / "a", settings(timeout=0.2, min_rate=2_000))
    assert time.monotonic() - start < 2
    server.troubles["a"] = ["drip"]
    server.files["a"] = OLD[:800]
    download(server.address("a"), tmp_path / "b", settings(timeout=0.2, min_rate=100))
    assert (tmp_path / "b").read_bytes() == OLD[:800]


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make localhost resolve to a public address; other names resolve as usual."""
    known = access._resolve
    monkeypatch.setattr(access, "_resolve", lambda host: {"93.184.216.34"} if host == "localhost" else known(host))


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_a_redirect_to_this_machine_is_refused(server: Server, tmp_path: Path, host: str) -> None:
    server.files["secret"] = b"of a service that listens on loopback only"
    server.redirects |= {"a": server.address("b", "localhost"), "b": server.address("secret?token=x9", host)}
    with pytest.raises(SourceUnavailableError, match="redirects to the private address") as caught:
        download(server.address("a", "localhost"), tmp_path / "a", settings())
    assert "x9" not in str(caught.value)
    assert [path for path, _ in server.asked] == ["a", "b"]
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_from_a_private_network_to_this_machine_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_resolve", lambda host: {"10.0.0.5" if host == "localhost" else host})
    server.files["b"], server.redirects["a"] = OLD, server.address("b")
    with pytest.raises(SourceUnavailableError, match="redirects to the private address"):
        download(server.address("a", "localhost"), tmp_path / "a", settings())


@pytest.mark.usefixtures("public")
def test_a_redirect_to_a_public_address_is_followed(server: Server, tmp_path: Path) -> None:
    server.files["b"], server.redirects["a"] = OLD, server.address("b", "localhost")
    download(server.address("a", "localhost"), tmp_path / "a", settings())
    assert (tmp_path / "a").read_bytes() == OLD


def test_an_address_that_is_named_may_be_of_this_machine(server: Server, tmp_path: Path) -> None:
    server.files["b"], server.redirects["a"] = OLD, server.address("b")
    download(server.address("a"), tmp_path / "a", settings())
    assert (tmp_path / "a").read_bytes() == OLD


def test_redirects_end(server: Server, tmp_path: Path) -> None:
    server.redirects["a"] = server.address("a")
    with pytest.raises(SourceUnavailableError, match="more than 10 redirects"):
        download(server.address("a"), tmp_path / "a", settings())
    assert len(server.asked) == 10


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        ("93.184.216.34", 0),
        ("2606:2800:220:1::1", 0),
        ("10.1.2.3", 1),
        ("192.168.1.1", 1),
        ("fd00::1", 1),
        ("169.254.169.254", 2),
        ("fe80::1", 2),
        ("127.0.0.1", 2),
        ("::1", 2),
        ("0.0.0.0", 2),
        ("::ffff:10.0.0.1", 1),
        ("::ffff:127.0.0.1", 2),
        ("::ffff:93.184.216.34", 0),
        ("no such host", 0),
    ],
)
def test_zones_of_addresses(host: str, zone: int) -> None:
    assert access.network_zone(host) == zone
