"""Models on the Hugging Face hub: upload of a model's folder, and download of the files that its manifest lists.

The library reads the token and the address of the hub from HF_TOKEN and HF_ENDPOINT.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from epigram.checkpoints.hub import BARE_NAME, HUB_PREFIX
from epigram.core.config_types import has_type, is_name, shown
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import atomic_folder, read_json
from epigram.data.sources.hub_models import translate_hub_errors
from epigram.models import manifest
from epigram.text.dataset.segmenter import user_cache

ADDRESS = re.compile(rf"{HUB_PREFIX}({BARE_NAME.pattern})(?:@(\w[\w./-]*))?", re.ASCII)


def push(folder: Path, repository: str, *, private: bool = False, training_texts: bool = False) -> str:
    """Upload the files of the model in `folder` to the repository ORG/NAME, and return the address of the commit.

    The repository is created if it does not exist, `private` or public. Raises ParameterError for an invalid name, and
    for a model with its training texts unless these `training_texts` are to be uploaded too; InputMissingError or
    DataError for a folder that is incomplete or was changed, SourceUnavailableError if the hub cannot be reached.
    """
    from huggingface_hub import HfApi

    if not BARE_NAME.fullmatch(repository):
        raise ParameterError(f"repository {shown(repr(repository))}: expected ORG/NAME, for example me/reviews")
    manifest.verify(folder)
    found = [str(path) for name in manifest.NEIGHBORS for path in sorted(folder.rglob(name))]
    if found and not training_texts:
        raise ParameterError(
            f"the model has its training texts, in {' and '.join(found)}; add --training-texts to upload them, or "
            "delete these files to leave the texts out"
        )
    with translate_hub_errors(f"repository {repository!r}"):
        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder.resolve(),
            commit_message="Upload a model of epigram",
            delete_patterns="*",  # files of an earlier model, which this manifest does not list
        )
    return f"{HUB_PREFIX}{repository}@{commit.oid}"


def local_folder(model: str | Path) -> Path:
    """Return the folder of `model`, a path or the address hub:ORG/NAME, which is downloaded to the user's cache once.

    An address without `@REVISION` stands for the newest commit. Only files that the model's manifest lists are fetched.
    Raises ParameterError for an invalid address, InputMissingError for an unknown repository, DataError if it has no
    model, SourceUnavailableError if the hub cannot be reached.
    """
    address = Path(model).as_posix()
    if not address.startswith(HUB_PREFIX):
        return Path(model)
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise ParameterError(f"model {shown(repr(address))}: expected hub:ORG/NAME or hub:ORG/NAME@REVISION")
    from huggingface_hub import HfApi

    repository, where = match[1], f"model {address!r}"
    with translate_hub_errors(where):
        info = HfApi().model_info(repository, revision=match[2])
    published = {file.rfilename for file in info.siblings or []}
    if manifest.MANIFEST not in published:
        raise DataError(f"{where}: the repository has no {manifest.MANIFEST}, so it is no model of epigram")
    folder = user_cache() / "models" / repository / str(info.sha)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as new, translate_hub_errors(where):
            _download(repository, str(info.sha), new, published)
    return folder


def _download(repository: str, revision: str, folder: Path, published: set[str]) -> None:
    """Fetch the manifest, then the files that it and the manifests of an ensemble's members list."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()

    def fetch(names: list[str]) -> None:
        snapshot_download(repository, revision=revision, allow_patterns=names, local_dir=folder)

    fetch([manifest.MANIFEST])
    names = _listed(folder, "")
    if members := [name for name in names if name.startswith(f"{manifest.MEMBERS}/")]:
        fetch(members)
        names += [file for member in members for file in _listed(folder, member.removesuffix(manifest.MANIFEST))]
    fetch([*names, *({manifest.SIGNATURE} & published)])
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the library's own records


def _listed(folder: Path, member: str) -> list[str]:
    """Return the files that the manifest in `folder`, or of its `member`, lists. Raises DataError for other names."""
    content = read_json(folder / member / manifest.MANIFEST)
    names: dict[str, str] = content.get("sha256", {}) if isinstance(content, dict) else {}
    if not has_type(names, dict[str, str]):
        raise DataError(f"{folder / member}/{manifest.MANIFEST} has no checksums; push the model again")
    for name in names:
        parts = name.split("/")
        nested = not member and len(parts) == 3 and name == manifest.member_manifest(parts[1]) and is_name(parts[1])
        if name not in manifest.FILES and not nested:
            raise DataError(f"{folder / member}/{manifest.MANIFEST} lists {shown(repr(name))}, which no model has")
    return [f"{member}{name}" for name in names]
