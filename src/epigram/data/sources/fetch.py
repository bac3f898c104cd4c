"""Download of a source's files from the mirror, then the official addresses, with verification and unpacking."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from epigram.core.config_types import is_http_url
from epigram.core.errors import DataError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.core.files import sha256
from epigram.data.sources import archives
from epigram.data.sources.access import redact_address
from epigram.data.sources.http import download
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import File
from epigram.data.sources.sql_and_hub import is_table_address, write_table

MIRROR = "EPIGRAM_MIRROR"
ARCHIVE_NAME = re.compile(r"\.(tar|tar\.gz|tgz|zip)$|/tar\.gz/", re.IGNORECASE)  # GitHub: /tar.gz/COMMIT


@dataclass
class Fetcher:
    """Fetcher of source files; downloads stay in `downloads` until `clear`, so that an interrupted run can resume.

    `counted`: the number of rows in the files is known, and is compared with the number that is read.
    """

    downloads: Path
    settings: DownloadSettings
    counted: bool = False
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
            path = _require_file(Path(file.local), "; put the file there, or add your own with `epigram add`")
            _unpack(path, path.name, file, target)
            _verify(target, file.sha256, file.path, str(path))
            return str(path)
        errors = []
        for address in _candidate_addresses(file):
            try:
                self._fetch_from(address, file, target)
            except (SourceUnavailableError, InputMissingError) as error:
                errors.append(error)
            else:
                return redact_address(address)
        raise _unavailable_error(file, errors)

    def clear(self) -> None:
        """Delete the downloads, once the files are in their folders."""
        for path in self.used:
            shutil.rmtree(path.parent, ignore_errors=True)

    def _fetch_from(self, address: str, file: File, target: Path) -> None:
        if is_table_address(address):
            write_table(address, file.query, target)
            _verify(target, file.sha256, file.path, address)
        elif address.startswith(("http://", "https://")):
            self._fetch_from_web(address, file, target)
        else:
            _verify_and_unpack(_require_file(Path(address)), address, file, target)

    def _fetch_from_web(self, address: str, file: File, target: Path, *, resume: bool = True) -> None:
        """Download and unpack; if a download of an earlier run, or a resumed one, is invalid, fetch it again, once."""
        downloaded = (
            self.downloads
            / hashlib.sha256(address.encode()).hexdigest()[:16]
            / (Path(urlsplit(address).path).name[-80:] or "file")
        )
        from_mirror = address not in file.addresses
        self.used.append(downloaded)
        hashed = file.sha256 is not None or (from_mirror and file.mirror_sha256 is not None)
        reused = downloaded.exists() or download(
            address,
            downloaded,
            self.settings,
            self.pause,
            max_bytes=file.max_bytes,
            resume=resume and hashed,
            checked=hashed or self.counted,
        )
        try:
            _verify_and_unpack(downloaded, address, file, target)
        except DataError:
            downloaded.unlink()
            if not reused:
                raise
            self._fetch_from_web(address, file, target, resume=False)


def _candidate_addresses(file: File) -> Iterator[str]:
    """Yield the addresses of the file in the order in which they are tried."""
    if (mirror := os.environ.get(MIRROR)) and file.mirror is not None:
        if is_http_url(mirror):
            yield f"{mirror.rstrip('/')}/{file.mirror}"
        elif Path(mirror).is_dir():
            yield str(Path(mirror) / file.mirror)
        else:
            raise ParameterError(f"{MIRROR} is {redact_address(mirror)!r}; expected a folder or an http address")
    yield from file.addresses


def _require_file(path: Path, remedy: str = "") -> Path:
    if not path.is_file():
        raise InputMissingError(f"{path} is missing{remedy}")
    return path


def _verify_and_unpack(downloaded: Path, address: str, file: File, target: Path) -> None:
    """Verify the download, unpack it to `target` and verify the result."""
    from_mirror = address not in file.addresses
    if from_mirror:
        _verify(downloaded, file.mirror_sha256, file.path, address)
    _unpack(downloaded, urlsplit(address).path if "://" in address else address, file, target)
    _verify(target, file.sha256, file.path, address)


def _unpack(downloaded: Path, name: str, file: File, target: Path) -> None:
    """Unpack the file that the source declares from `downloaded` to `target`; `name` is its original name."""
    # A mirror may hold the file already extracted, and the file may itself be an archive: then nothing is unpacked.
    if file.sha256 is not None and sha256(downloaded) == file.sha256:
        shutil.copyfile(downloaded, target)
    # an archive by its name, although the content may be corrupt, or by its content
    elif file.archive is not None and (ARCHIVE_NAME.search(name) or archives.is_archive(downloaded)):
        write = {"tar": archives.repack, "file": archives.unpack_one, "names": archives.write_names}[file.archive.to]
        write(downloaded, target, file.archive.members)
    elif name.lower().endswith(".gz") and not file.path.endswith(".gz"):
        archives.gunzip(downloaded, target)
    else:
        shutil.copyfile(downloaded, target)


def _verify(path: Path, expected: str | None, name: str, address: str) -> None:
    if expected is None:
        return
    found = sha256(path)
    if found != expected:
        raise DataError(
            f"{name} from {redact_address(address)} has the checksum {found[:12]}…, expected {expected[:12]}…: the "
            "file is damaged or has changed; download it again, or, if the change is intended, run `epigram add` with "
            "--replace for a file of your own, or update the checksum in data/sources"
        )


def _unavailable_error(file: File, errors: list[SourceUnavailableError | InputMissingError]) -> Exception:
    """Return the error to raise: SourceUnavailableError first, because a retry may succeed."""
    if not errors:
        return SourceUnavailableError(
            f"{file.path} has no download address; set {MIRROR} to a folder or address that has the file"
        )
    first = next((error for error in errors if isinstance(error, SourceUnavailableError)), errors[-1])
    others = "".join(f"\nalso tried: {error}" for error in errors if error is not first)
    return type(first)(f"{file.path}: {first}{others}")
