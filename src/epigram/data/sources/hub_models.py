"""Download of a checkpoint from the Hugging Face hub: only weights in safetensors, settings and tokenizer files."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.checkpoints.hub import (
    HUB_FOLDER,
    HUB_PREFIX,
    LOCK,
    HubCheckpoint,
    is_downloaded,
    parse_hub_checkpoint,
)
from epigram.core.errors import (
    DataError,
    EpigramError,
    InputMissingError,
    ParameterError,
    SourceUnavailableError,
)
from epigram.core.files import atomic_folder, sha256, write_json
from epigram.process.display import echo

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TOKENIZERS = ("tokenizer.json", "vocab.txt")
ALLOWED = {CONFIG, *TOKENIZERS, "tokenizer_config.json", "special_tokens_map.json"}  # besides the weights
NO_ACCESS = {401, 403, 404, 410}  # HTTP status; the hub also sends 401 for a repository that does not exist
SHARD = re.compile(r"model-\d+-of-\d+\.safetensors", re.ASCII)


def download_checkpoint(checkpoint: str) -> None:
    """Download the files of a `hub:` checkpoint, unless they are in the project; accept any other checkpoint.

    Only the stage encode calls it. A second process waits for the first. The library reads the token and the address of
    the hub from HF_TOKEN and HF_ENDPOINT, and also HF_HUB_OFFLINE. The folder appears only with all its files.

    Raises ParameterError for an invalid revision, InputMissingError for an unknown repository or commit, DataError if
    the repository lacks a required file, SourceUnavailableError if the hub cannot be reached or a file is damaged.
    """
    if not checkpoint.startswith(HUB_PREFIX):
        return
    from filelock import FileLock

    wanted = parse_hub_checkpoint(checkpoint)
    HUB_FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(HUB_FOLDER / "download.lock"):
        if not is_downloaded(wanted):
            files = find_files(checkpoint)
            echo(f"downloading {checkpoint}: {describe_files(files)}")
            with translate_hub_errors(f"checkpoint {checkpoint!r}"):
                _download(checkpoint, wanted, files)


def find_files(checkpoint: str) -> list[RepoSibling]:
    """Return the files of a `hub:` checkpoint that a download fetches. Raises the errors of `download_checkpoint`."""
    from huggingface_hub import HfApi

    repository, revision = parse_hub_checkpoint(checkpoint)
    with translate_hub_errors(f"checkpoint {checkpoint!r}"):
        info = HfApi().model_info(repository, revision=revision, files_metadata=True)
    if info.sha != revision:
        raise DataError(f"checkpoint {checkpoint!r}: the hub has sent another commit ({info.sha}); check HF_ENDPOINT")
    return _allowed_files(checkpoint, info.siblings or [])


def newest_commit(checkpoint: str) -> str:
    """Return the hash of the newest commit of hub:ORG/NAME. Raises the errors of `translate_hub_errors`."""
    from huggingface_hub import HfApi

    with translate_hub_errors(f"checkpoint {checkpoint!r}"):
        return str(HfApi().model_info(checkpoint.removeprefix(HUB_PREFIX)).sha)


def describe_files(files: Sequence[RepoSibling]) -> str:
    """Return the number of `files` and their size."""
    return f"{len(files)} files, {sum(file.size or 0 for file in files) / 1e6:,.1f} MB"


def _download(checkpoint: str, wanted: HubCheckpoint, files: Sequence[RepoSibling]) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.logging import set_verbosity_error
    from huggingface_hub.utils.tqdm import disable_progress_bars

    set_verbosity_error()  # type: ignore[no-untyped-call]  # else each failed attempt logs a line
    disable_progress_bars()
    names = [file.rfilename for file in files]
    with atomic_folder(wanted.folder) as folder:
        snapshot_download(wanted.repository, revision=wanted.revision, allow_patterns=names, local_dir=folder)
        shutil.rmtree(folder / ".cache")  # the library's own records
        write_json(folder / LOCK, {file.rfilename: _checked_sha256(checkpoint, folder, file) for file in files})


def _allowed_files(checkpoint: str, published: Sequence[RepoSibling]) -> list[RepoSibling]:
    """Return the files to download. Raises DataError if a required one is missing."""
    by_name = {file.rfilename: file for file in published}
    sharded = WEIGHTS not in by_name and INDEX in by_name
    weights = [INDEX, *filter(SHARD.fullmatch, by_name)] if sharded else [WEIGHTS]
    for names in (weights[:1], [CONFIG], TOKENIZERS):
        if by_name.keys().isdisjoint(names):
            raise DataError(
                f"checkpoint {checkpoint!r}: the repository has no {' or '.join(names)} in this commit; choose a "
                "commit or a repository that has it"
            )
    return [by_name[name] for name in sorted({*weights, *(ALLOWED & by_name.keys())})]


def _checked_sha256(checkpoint: str, folder: Path, file: RepoSibling) -> str:
    """Return the SHA-256 of a downloaded file. Raises SourceUnavailableError unless it has the hub's own checksum."""
    path = folder / file.rfilename
    digest = sha256(path)
    found, published = digest, file.lfs.sha256 if file.lfs else file.blob_id
    if not file.lfs:  # the hub lists the SHA-1 by which git names the content
        content = path.read_bytes()
        found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if found != published:
        raise SourceUnavailableError(
            f"checkpoint {checkpoint!r}: the download of {file.rfilename} is damaged (checksum {found[:12]}…, expected "
            f"{(published or 'one')[:12]}…); rerun"
        )
    return digest


@contextmanager
def translate_hub_errors(where: str) -> Iterator[None]:
    """Convert the library's errors to this project's, about `where`; addresses, which may be signed, are not shown."""
    try:
        yield
    except (EpigramError, MemoryError):
        raise
    except Exception as error:  # errors of two HTTP libraries, the Rust library, or a server that is no hub
        if getattr(error, "errno", None) is not None or "(os error 28)" in str(error):
            raise  # re-raise disk errors unchanged
        raise _translated(where, error) from None


def _translated(where: str, error: Exception) -> EpigramError:
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RevisionNotFoundError,
    )

    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if isinstance(error, HFValidationError):
        return ParameterError(f"{where}: the hub has no repositories of such a name; check the name")
    if isinstance(error, OfflineModeIsEnabled):
        return InputMissingError(f"{where} is not downloaded, and HF_HUB_OFFLINE is set: unset it and rerun")
    if isinstance(error, RevisionNotFoundError):
        return InputMissingError(f"{where}: the repository has no such commit: copy the hash from the model's page")
    if status in NO_ACCESS:
        return InputMissingError(
            f"{where}: the hub has no such repository, or it is private (HTTP status {status}): check the name; for a "
            "private one, set HF_TOKEN to a token with access"
        )
    kind = "incomplete file" if type(error) is OSError else type(error).__name__
    reason = f"HTTP status {status}" if status else kind
    return SourceUnavailableError(
        f"{where} cannot be downloaded ({reason}); check the network and HF_ENDPOINT, then rerun"
    )
