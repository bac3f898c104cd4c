"""epigram init: a project of the user's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import epigram
from epigram.core.errors import ParameterError
from epigram.process.display import echo

if TYPE_CHECKING:
    from epigram.runner.project.files import Update


def main(
    folder: Annotated[Path | None, typer.Argument(help="Folder to create; with --update, default: this one.")] = None,
    update_: Annotated[
        bool, typer.Option("--update", help="Update the files of a project that you have not changed.")
    ] = False,
    from_: Annotated[
        Path | None, typer.Option("--from", help="Model of `epigram fit`, which the project trains again.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="With --from: the file of the fit.")] = None,
) -> None:
    """Create a project of your own, with git and DVC initialised.

    With a model of `epigram fit` and its file, `epigram run` in the project gives the same weights. Without FOLDER,
    that project has the name of the file.

    Example: epigram init demo && cd demo && epigram run
    """
    from epigram.core.settings import dataset_of
    from epigram.data.packed import file_stem
    from epigram.data.sources.source import SOURCES, load_source
    from epigram.runner.project.files import create, update
    from epigram.runner.retraining.inbox import invitation
    from epigram.runner.workspace.fitted_project import create_project

    if (from_ is None) != (data is None) or (update_ and from_ is not None):
        raise ParameterError("--from needs --data, and the two cannot be combined with --update")
    if from_ is not None and data is not None:
        folder = create_project(folder or Path(file_stem(data)), model=from_, data=data)
        source = load_source(dataset_of(folder / "params.yaml"), folder / SOURCES)
        echo(
            f"{folder}: created a project that trains {from_} again\nnext:\n{_change(folder)}"
            "  epigram run                       # train it again, with the same weights on this machine, and report\n"
            "  epigram retrain                   # train a first champion; no run is needed before\n"
            f"{invitation(folder, source)}"
        )
        return
    if update_:
        _print_update(update(folder or Path()))
        return
    if folder is None:
        raise ParameterError("the folder is missing: epigram init FOLDER")
    create(folder)
    echo(
        f"{folder}: created a project for epigram {epigram.__version__}\nnext:\n{_change(folder)}"
        "  epigram run                       # train and compare the systems of params.yaml on the embedded corpus\n"
        "  epigram add reviews.csv --text review --label stars && epigram run --dataset reviews"
    )


def _change(folder: Path) -> str:
    """Return the line that enters the folder of a project, empty for the current folder."""
    return "" if folder.resolve() == Path.cwd() else f"  cd {shlex.quote(str(folder))}\n"


def _print_update(result: Update) -> None:
    for name in result.written:
        echo(f"updated: {name}")
    for name in result.deleted:
        echo(f"deleted: {name}")
    for name, diff in result.diffs.items():
        echo(f"kept: {name}, because you have changed it; the new version differs:\n{diff.rstrip()}")
    echo(f"the project is for epigram {epigram.__version__}, before: {result.version}; check `git diff` and commit")
