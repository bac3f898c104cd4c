"""Errors of the Hugging Face hub's library as this project's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from epigram.core.errors import EpigramError, InputMissingError, ParameterError, SourceUnavailableError
from epigram.core.hub_checkpoints import HUB_FOLDER

NO_ACCESS = {401, 403, 404, 410}  # HTTP status; the hub also sends 401 for a repository that does not exist


@contextmanager
def translate_hub_errors(checkpoint: str) -> Iterator[None]:
    """Convert the library's errors to this project's; addresses, which may be signed, are not shown."""
    try:
        yield
    except (EpigramError, MemoryError):
        raise
    except Exception as error:  # those of two HTTP libraries, of the Rust library, and of a server that is not a hub
        if getattr(error, "errno", None) is not None or "(os error 28)" in str(error):
            raise  # of the disk
        raise _translated(checkpoint, error) from None


def _translated(checkpoint: str, error: Exception) -> EpigramError:
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RevisionNotFoundError,
    )

    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    where, status = f"checkpoint {checkpoint!r}", error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if isinstance(error, HFValidationError):
        return ParameterError(f"{where}: the hub has no repositories of such a name; check the name")
    if isinstance(error, OfflineModeIsEnabled):
        return InputMissingError(f"{where} is not in {HUB_FOLDER}, and HF_HUB_OFFLINE is set: unset it and rerun")
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
