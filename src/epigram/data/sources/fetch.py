"""Download of a source's files from the mirror, then the official addresses, with verification and unpacking."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from epigram.core.config_types import is_web_address
from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.core.files import sha256
from epigram.data.sources import archives
from epigram.data.sources.access import hidden
from epigram.data.sources.http import download
from epigram.data.sources.partial_download import part_of
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import File
from epigram.data.sources.sql_and_hub import is_table, write_table

MIRROR = "EPIGRAM_MIRROR"


@dataclass
class Fetcher:
    """Fetcher of source files; downloads stay in `arrivals` until `clear`, so that an interrupted run can resume."""

    arrivals: Path
    settings: DownloadSettings
    pause: float = 1.0  # seconds before the second try
    used: list[Path] = field(default_factory=list)

    def fetch(self, file: File, folder: Path) -> str:
        """Write `file` to `folder` and return the address or path it came from.

        Raises InputMissingError or SourceUnavailableError if no address provides the file, DataError if it is corrupt
        or its checksum does not match.
        """
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.local is not None:
            return _copy_local(file, Path(file.local), target)
        faults = []
        for address in _places(file):
            try:
                self._from(address, file, target)
            except (SourceUnavailableError, InputMissingError) as fault:
                faults.append(fault)
            else:
                return hidden(address)
        raise _nowhere(file, faults)

    def clear(self) -> None:
        """Delete the downloads, once the files are in their folders."""
        for path in self.used:
            shutil.rmtree(path.parent, ignore_errors=True)

    def _from(self, address: str, file: File, target: Path) -> None:
        if is_table(address):
            write_table(address, file.query, target)
            _verify(target, file.sha256, file.path, address)
        elif address.startswith(("http://", "https://")):
            self._from_network(address, file, target)
        else:
            _settle(_in_folder(Path(address)), address, file, target)

    def _from_network(self, address: str, file: File, target: Path) -> None:
        """Download and unpack; if a download that an earlier run left is invalid, fetch it again, once."""
        arrival = self.arrivals / hashlib.sha256(address.encode()).hexdigest()[:16] / _name(address)
        earlier = arrival.exists() or part_of(arrival).exists()
        mirrored = address not in file.addresses
        self.used.append(arrival)
        if not arrival.exists():
            checked = file.sha256 is not None or (mirrored and file.mirror_sha256 is not None)
            download(address, arrival, self.settings, self.pause, max_bytes=file.max_bytes, checked=checked)
        try:
            _settle(arrival, address, file, target)
        except DataError:
            arrival.unlink()
            if not earlier:
                raise
            self._from_network(address, file, target)


def _places(file: File) -> Iterator[str]:
    """Yield the addresses of the file in the order in which they are tried."""
    if (mirror := os.environ.get(MIRROR)) and file.mirror is not None:
        if is_web_address(mirror):
            yield f"{mirror.rstrip('/')}/{file.mirror}"
        elif Path(mirror).is_dir():
            yield str(Path(mirror) / file.mirror)
        else:
            raise ParameterError(f"{MIRROR} was {hidden(mirror)!r}: neither a folder nor an http address")
    yield from file.addresses


def _name(address: str) -> str:
    """Return the last part of the address as a file name."""
    return Path(urlsplit(address).path).name[-80:] or "file"


def _in_folder(path: Path) -> Path:
    if not path.is_file():
        raise InputMissingError(f"{path} is missing")
    return path


def _copy_local(file: File, path: Path, target: Path) -> str:
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: put the file there (or add yours with epigram add)")
    _unpack(path, path.name, file, target)
    _verify(target, file.sha256, file.path, str(path))
    return str(path)


def _settle(arrival: Path, address: str, file: File, target: Path) -> None:
    """Verify the download, unpack it to `target` and verify the result."""
    mirrored = address not in file.addresses
    if mirrored:
        _verify(arrival, file.mirror_sha256, file.path, address)
    _unpack(arrival, urlsplit(address).path if "://" in address else address, file, target)
    _verify(target, file.sha256, file.path, address)


def _unpack(arrival: Path, name: str, file: File, target: Path) -> None:
    """Unpack the file that the source declares from `arrival` to `target`; `name` is the download's original name."""
    # A mirror may hold the file already extracted, and the file may itself be an archive: then nothing is unpacked.
    if file.sha256 is not None and sha256(arrival) == file.sha256:
        shutil.copyfile(arrival, target)
    elif file.archive is not None and _is_archive(arrival, name):
        {"tar": archives.repack, "file": archives.unpack_one, "names": archives.names}[file.archive.to](
            arrival, target, file.archive.members
        )
    elif name.lower().endswith(".gz") and not file.path.endswith(".gz"):
        archives.gunzip(arrival, target)
    else:
        shutil.copyfile(arrival, target)


def _is_archive(arrival: Path, name: str) -> bool:
    """Return whether `arrival` is an archive, by its content, or by its name if the content is too corrupt to tell."""
    named = name.lower().endswith((".tar", ".tar.gz", ".tgz", ".zip")) or "/tar.gz/" in name  # GitHub's …/tar.gz/COMMIT
    return named or archives.is_archive(arrival)


def _verify(path: Path, expected: str | None, name: str, address: str) -> None:
    if expected is None:
        return
    found = sha256(path)
    if found != expected:
        raise DataError(
            f"{name} from {hidden(address)} has the checksum {found[:12]}…, {expected[:12]}… was expected: "
            "the file is damaged or has changed; fetch it again, or put the new checksum into data/sources if the "
            "change is meant"
        )


def _nowhere(file: File, faults: list[SourceUnavailableError | InputMissingError]) -> Exception:
    """Return the error to raise: SourceUnavailableError first, because a retry may succeed."""
    if not faults:
        return SourceUnavailableError(f"{file.path} has no address of its own: set {MIRROR} to a copy that has it")
    first = next((fault for fault in faults if isinstance(fault, SourceUnavailableError)), faults[-1])
    others = "".join(f"\nalso tried: {fault}" for fault in faults if fault is not first)
    return type(first)(f"{file.path}: {first}{others}")
