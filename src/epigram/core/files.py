"""Atomic writes of files and folders, hashes, JSON, and safetensors files."""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from epigram.core.config_types import parse_json, shown
from epigram.core.errors import DataError, InputMissingError, TryAgainError

try:
    import fcntl
except ImportError:  # Windows can neither open nor lock a folder
    fcntl = None  # type: ignore[assignment]

MAX_TEXT_BYTES = 256 << 20  # maximum bytes of a text file that is read whole
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2  # constants of linux/fcntl.h and linux/fs.h


def _fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk; Windows does so by itself."""
    if fcntl is None:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success it replaces `path`, on failure it is removed.

    The file has the mode of any new file, unless the block sets another one. Temporary files that a killed process left
    are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_temporary(path, lambda temporary: temporary.touch(exist_ok=False)) as temporary:
        try:
            _remove_leftovers_of(path, temporary)
            yield temporary
            _fsync(temporary)
            temporary.replace(path)
            _fsync(path.parent)
        except Exception as error:
            error.add_note(str(path))  # an error of the disk may lack the path
            raise
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path`; on success it replaces `path`, on failure `path` is unchanged.

    On Linux the two folders are exchanged in one step, so that `path` is never missing. Temporary folders that a killed
    process left are removed. Raises TryAgainError while another process writes `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_temporary(path, Path.mkdir) as temporary:
        try:
            if not _remove_leftovers_of(path, temporary):
                raise TryAgainError(f"another process is writing {path}: rerun after it has finished")
            yield temporary
            for file in temporary.rglob("*"):
                _fsync(file)
            _replace_folder(temporary, path)
            _fsync(path.parent)
        except Exception as error:
            error.add_note(str(path))
            raise
        finally:
            _remove(temporary)


def _replace_folder(new: Path, path: Path) -> None:
    """Move the folder `new` to `path`; the old folder, if any, is at `new` afterwards."""
    if not os.path.lexists(path):
        new.replace(path)
    # without an exchange (not Linux, or not supported by the file system), a process that is killed between
    # the two renames leaves the old folder under a temporary name and nothing at `path`
    elif not _renameat2(new, path, RENAME_EXCHANGE):
        old = _temporary_path(path)
        path.replace(old)
        new.replace(path)
        old.replace(new)


def rename_no_replace(path: Path, target: Path) -> bool:
    """Rename `path` to `target`; return False, with nothing changed, if `target` exists.

    On Linux this is one step. On systems or file systems without support for it, `target` is checked before the rename.
    """
    try:
        if not _renameat2(path, target, RENAME_NOREPLACE):
            if os.path.lexists(target):
                return False
            path.rename(target)
    except FileExistsError:
        return False
    return True


def _renameat2(first: Path, second: Path, flags: int) -> bool:
    """Call Linux's renameat2 with `flags`; return False if the system or file system does not support them."""
    if sys.platform != "linux":
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if not renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), flags):
        return True
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(code, os.strerror(code), str(second))


@contextmanager
def _locked_temporary(path: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a new temporary for `path`, locked during the block; the lock marks its writer as alive."""
    if fcntl is None:
        create(temporary := _temporary_path(path))
        yield temporary
        return
    temporary, descriptor = _create_locked(path, create)
    try:
        yield temporary
    finally:
        os.close(descriptor)


def _create_locked(path: Path, create: Callable[[Path], None]) -> tuple[Path, int]:
    while True:
        create(temporary := _temporary_path(path))
        descriptor = os.open(temporary, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks; `filelock` locks no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)  # another process removed it as a leftover before it was locked


def _temporary_path(path: Path) -> Path:
    """Return an unused name; `tempfile` is not used because its files are private, whatever the umask."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def _remove_leftovers_of(path: Path, own: Path) -> bool:
    """Remove leftovers of killed processes for `path`; return False if a running process writes it."""
    names = f".{glob.escape(path.name)}.{'[a-z0-9_]' * 8}"
    in_use = [other for other in path.parent.glob(names) if other != own and not _remove_leftover(other)]
    return not in_use


def remove_leftovers(temporaries: Iterable[Path]) -> None:
    """Remove the temporary files and folders whose writers were killed."""
    for path in temporaries:
        _remove_leftover(path)


def _remove_leftover(path: Path) -> bool:
    """Remove a leftover of a killed process; return False if its writer is running. Without locks, it stays."""
    if fcntl is None:
        return True
    with suppress(OSError):  # its writer has just ended, or it belongs to another user
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
        finally:
            os.close(descriptor)
        _remove(path)
    return True


def _remove(path: Path) -> None:
    """Remove a file, a link, or as much of a folder as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def exclusive_lock(lock: Path, busy_message: Callable[[str], str]) -> Iterator[None]:
    """Hold the lock file `lock`; the operating system releases it when the process ends, even if it is killed.

    Raises TryAgainError if another process holds the lock; `busy_message` returns the message for its process id.
    """
    from filelock import FileLock, Timeout

    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(lock).acquire(blocking=False)
    except Timeout:
        holder = "unknown"
        with suppress(PermissionError):  # Windows lets nobody read or write a locked file
            holder = lock.read_text(encoding="utf-8").strip()
        raise TryAgainError(busy_message(holder)) from None
    with held:
        with suppress(PermissionError):
            lock.write_text(str(os.getpid()), encoding="utf-8")
        yield


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_limited_text(path: Path) -> str:
    """Return the text of a UTF-8 file. Raises DataError for a file above MAX_TEXT_BYTES."""
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise DataError(f"{path} is larger than {MAX_TEXT_BYTES >> 20} MB: it is damaged, restore it")
    return path.read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises InputMissingError if it is missing and DataError if it is invalid."""
    try:
        return parse_json(read_limited_text(path))
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error}): delete it and run dvc repro") from None


def sha256(path: Path) -> str:
    """Return the hex digest of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write torch tensors to one safetensors file, atomically."""
    from safetensors.torch import save_file

    with atomic_file(path) as temporary, _keep_mode(temporary):
        save_file(dict(tensors), temporary, metadata={"format": "pt"})


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write NumPy arrays to one safetensors file, atomically."""
    from safetensors.numpy import save_file

    with atomic_file(path) as temporary, _keep_mode(temporary):
        save_file(dict(arrays), temporary)


@contextmanager
def _keep_mode(path: Path) -> Iterator[None]:
    """Restore the mode of `path` after the block; safetensors replaces the file by one that only its owner can read."""
    mode = stat.S_IMODE(path.stat().st_mode)
    yield
    path.chmod(mode)


def read_arrays(path: Path) -> dict[str, Any]:
    """Read a safetensors file as NumPy arrays.

    Raises InputMissingError if the file is missing and DataError if it is damaged.
    """
    from safetensors.numpy import load_file

    with safetensors_errors(path):
        return dict(load_file(path))


@contextmanager
def safetensors_errors(path: Path) -> Iterator[None]:
    """Raise InputMissingError if the block finds the safetensors file missing, and DataError if it is damaged."""
    from safetensors import SafetensorError

    try:
        yield
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except SafetensorError as error:
        raise DataError(
            f"{path} is not a valid safetensors file ({shown(str(error))}): delete it and run dvc repro"
        ) from None


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether `path` is inside `folder`, without following links."""
    return Path(os.path.normpath(path.absolute())).is_relative_to(folder.absolute())
