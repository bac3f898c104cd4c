"""Runs as experiments of DVC, which `dvc exp show`, `dvc plots` and the DVC extension of VS Code read.

An experiment is a commit at refs/exps/BASELINE/NAME, and its parent is the commit BASELINE. It is written with git:
`dvc exp save` stashes the user's changes, and if an input was edited during the run, it records the old output as the
output of the edited input.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from epigram.core.errors import EpigramError, InputMissingError
from epigram.process.display import echo
from epigram.runner.champions.champion import AUTHOR
from epigram.runner.champions.champion_refs import index_run
from epigram.runner.git import UnreadableRepositoryError, commit_of, git, temporary_index
from epigram.runner.workspace.workspace import Workspace

KEPT = 30  # number of experiments of runs; an older one is removed when another one is saved
SUBJECT = "run "  # start of the subject of an experiment's commit; the run's name follows
FIELDS = "%(refname) %(objectname) %(tree) %(committeremail) %(contents:subject)"


class Experiment(NamedTuple):
    """A run that is an experiment: its ref, its commit and the tree of the commit."""

    ref: str
    commit: str
    tree: str


def save(name: str, workspace: Workspace) -> None:
    """Make the run `name` in `workspace` an experiment, and remove the oldest ones; print a warning if git fails.

    Without a commit, there are no experiments. A run adds none if the baseline or one of its experiments has the same
    files and results.
    """
    try:
        if baseline := commit_of(workspace.main):
            _save(name, workspace, baseline)
    except UnreadableRepositoryError:
        pass
    except (EpigramError, OSError) as error:
        echo(f"warning: run {name} is not saved as an experiment of DVC: {error}", file=sys.stderr)


def _save(name: str, workspace: Workspace, baseline: str) -> None:
    main, folder = workspace.main, f"refs/exps/{baseline[:2]}/{baseline[2:]}/"
    with temporary_index() as env:
        index_run(workspace.path, baseline, env)
        tree = git(workspace.path, "write-tree", env=env, durable=True)
    saved = _saved(main)
    known = [each.tree for each in saved if each.ref.startswith(folder)]
    if tree in [git(main, "rev-parse", f"{baseline}^{{tree}}"), *known]:
        return
    commit = git(main, "commit-tree", tree, "-p", baseline, "-m", f"{SUBJECT}{name}", env=AUTHOR, durable=True)
    replaced = next((each.commit for each in saved if each.ref == folder + name), "0" * len(commit))
    git(main, "update-ref", folder + name, commit, replaced, durable=True)  # fails for an experiment of the user's own
    others = [each for each in saved if each.ref != folder + name]
    same_name = [each for each in others if each.ref.endswith(f"/{name}")]  # they have another baseline
    oldest = [each for each in others if each not in same_name][KEPT - 1 :]
    deletions = "".join(f"delete {each.ref} {each.commit}\n" for each in same_name + oldest)
    with suppress(InputMissingError):  # another run deletes the same ones
        git(main, "update-ref", "--stdin", text=deletions)


def _saved(main: Path) -> list[Experiment]:
    """Return the experiments that `save` wrote and nobody renamed, newest first."""
    lines = git(main, "for-each-ref", "--sort=-committerdate", f"--format={FIELDS}", "refs/exps").splitlines()
    found = []
    for ref, commit, tree, email, *subject in (line.split(" ", 4) for line in lines):
        if email == f"<{AUTHOR['GIT_COMMITTER_EMAIL']}>" and subject == [f"{SUBJECT}{ref.rpartition('/')[2]}"]:
            found.append(Experiment(ref, commit, tree))
    return found
