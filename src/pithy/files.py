"""Files that are whole or absent: atomic writes, hashes, JSON, tensor bundles."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pithy.errors import DataError, InputMissingError, TryAgainError
from pithy.values import parsed_json, shown

LARGEST_TEXT = 256 << 20  # bytes of a file that is read whole
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2  # of linux/fcntl.h and linux/fs.h


def _sync(path: Path) -> None:
    """Flush a file or a folder's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the place of `path`, on failure nothing is left.

    Its mode is that of any new file, unless the block sets another. What a killed process left of an earlier try is
    removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path, _new_file) as temporary:
        try:
            _clear_others(path, temporary)
            yield temporary
            _sync(temporary)
            temporary.replace(path)
            _sync(path.parent)
        except Exception as error:
            error.add_note(str(path))  # a fault of the disk may not say where it was
            raise
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path`; on success it replaces `path`, on failure `path` stays as it was.

    On Linux the two folders are exchanged in one step, so that `path` is never missing. What a killed process left of
    an earlier try is removed. Raises TryAgainError while another process writes `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path, _new_folder) as temporary:
        try:
            if not _clear_others(path, temporary):
                raise TryAgainError(f"another process writes {path}: try again when it has ended")
            yield temporary
            for file in temporary.rglob("*"):
                _sync(file)
            _replace_folder(temporary, path)
            _sync(path.parent)
        except Exception as error:
            error.add_note(str(path))
            raise
        finally:
            _remove(temporary)


def _replace_folder(new: Path, path: Path) -> None:
    """Move the folder `new` to `path`; what was at `path` is at `new` afterwards, or is gone.

    Where folders cannot be exchanged (not Linux, or a file system without it) there are two renames, and a process that
    is killed between them leaves the old folder under a temporary name and nothing at `path`.
    """
    if not os.path.lexists(path):
        new.replace(path)
    elif not _exchange(new, path):
        old = _new_name(path)
        path.replace(old)
        new.replace(path)
        old.replace(new)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step (Linux); False where this system or file system cannot."""
    return _renameat2(first, second, RENAME_EXCHANGE)


def rename_new(path: Path, target: Path) -> bool:
    """Rename `path` to `target`; False, with nothing changed, where `target` is taken.

    On Linux this is one step. Where the system or the file system cannot do that, `target` is looked at first.
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
    """Rename with the flags of Linux's renameat2; False where this system or file system does not have them."""
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
def _held(path: Path, new: Callable[[Path], Path]) -> Iterator[Path]:
    """A temporary of `path`, locked while the block runs: by that it is told from what a killed process left."""
    temporary, descriptor = _locked(path, new)
    try:
        yield temporary
    finally:
        os.close(descriptor)


def _locked(path: Path, new: Callable[[Path], Path]) -> tuple[Path, int]:
    while True:
        temporary = new(path)
        descriptor = os.open(temporary, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)  # another process took it for one that was left, before it was locked


def _new_file(path: Path) -> Path:
    temporary = _new_name(path)
    temporary.touch(exist_ok=False)
    return temporary


def _new_folder(path: Path) -> Path:
    temporary = _new_name(path)
    temporary.mkdir()
    return temporary


def _new_name(path: Path) -> Path:
    """A name that is not taken; what `tempfile` makes is closed to others, whatever the umask."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def _clear_others(path: Path, own: Path) -> bool:
    """Remove what killed processes left of `path`; False where a living one writes it."""
    names = f".{glob.escape(path.name)}.{'[a-z0-9_]' * 8}"
    living = [other for other in path.parent.glob(names) if other != own and not _clear(other)]
    return not living


def clear_left(temporaries: Iterable[Path]) -> None:
    """Remove those of the temporary files and folders whose writers were killed."""
    for path in temporaries:
        _clear(path)


def _clear(path: Path) -> bool:
    """Remove what a killed process left; False where its writer is alive."""
    with suppress(OSError):  # its writer has just ended, or it is another user's
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
    """Remove a folder as far as possible, or a file or link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def alone(lock: Path, busy: Callable[[str], str]) -> Iterator[None]:
    """Hold the file `lock`; the system lets go of it when the process ends, however it ends.

    Raises TryAgainError with what `busy` makes of the id of the process that holds it.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise TryAgainError(busy(file.read().strip())) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def small_text(path: Path) -> str:
    """The text of a UTF-8 file. Raises DataError for one that is too large to be settings or a list."""
    if path.stat().st_size > LARGEST_TEXT:
        raise DataError(f"{path} has more than {LARGEST_TEXT >> 20} MB: it is damaged, restore it")
    return path.read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing or broken file is a clear error."""
    try:
        return parsed_json(small_text(path))
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error}): delete it and run dvc repro") from None


def sha256(path: Path) -> str:
    """Hex digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write torch tensors as one safetensors file, atomically."""
    from safetensors.torch import save_file

    with atomic_file(path) as temporary, _mode_kept(temporary):
        save_file(dict(tensors), temporary, metadata={"format": "pt"})


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write NumPy arrays as one safetensors file, atomically."""
    from safetensors.numpy import save_file

    with atomic_file(path) as temporary, _mode_kept(temporary):
        save_file(dict(arrays), temporary)


@contextmanager
def _mode_kept(path: Path) -> Iterator[None]:
    """Keep the permissions of `path`: safetensors replaces a file by one that only its owner can read."""
    mode = stat.S_IMODE(path.stat().st_mode)
    yield
    path.chmod(mode)


def read_arrays(path: Path) -> dict[str, Any]:
    """Read a safetensors file as NumPy arrays; a missing or broken file is a clear error."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)") from None
    except SafetensorError as error:
        raise DataError(
            f"{path} is not a whole safetensors file ({shown(str(error))}): delete it and run dvc repro"
        ) from None


def stands_in(path: Path, folder: Path) -> bool:
    """Whether the place that `path` names is below `folder`, wherever a link there leads."""
    return Path(os.path.normpath(path.absolute())).is_relative_to(folder.absolute())
