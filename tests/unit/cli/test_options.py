"""Tests that each option of each command sets the field or the argument that it must set.

A row of OPTIONS is a command without the option, the option, and what the function that does the work is called with.
The same value must not be there without the option, so a row of an option that reaches nothing fails.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from epigram.cli import app as cli
from epigram.cli.models.label import Question
from epigram.core.errors import ParameterError
from epigram.core.machine import count_processors
from epigram.evaluation.records.results import ClassScores
from epigram.fitting.evaluate import ModelScores
from epigram.inference.predictors.base_predictor import TextPrediction
from epigram.inference.predictors.explanation import Explanation
from epigram.inference.server.settings import ServerSettings
from epigram.labelling.endpoint import Endpoint
from epigram.runner.git import git
from epigram.runner.tables.definition import TableCell

RUNNER = "epigram.runner"
# The functions that do the work of a command, at the place where the command finds them.
WORKERS: dict[str, list[str]] = {
    "run": [
        f"{RUNNER}.prefect.execution.execute",
        f"{RUNNER}.search.execute_search",
        f"{RUNNER}.runs.mlflow_log.require",
    ],
    "sweep": [f"{RUNNER}.prefect.execution.execute_sweep", f"{RUNNER}.runs.reservations.reserve"],
    "fit": ["epigram.fitting.fit.fit"],
    "table": [f"{RUNNER}.tables.results.make_trials", f"{RUNNER}.tables.results.remaining_minutes"],
    "retrain": [
        f"{RUNNER}.prefect.execution.call_flow",
        f"{RUNNER}.champions.champion.rollback",
        f"{RUNNER}.champions.champion.history",
        f"{RUNNER}.retraining.retraining.restore_data",
        f"{RUNNER}.retraining.retraining.withdraw_file",
    ],
    "drift": [f"{RUNNER}.prefect.execution.call_flow"],
    "predict": [
        "epigram.inference.predictors.open_predictor.open_predictor",
        "epigram.inference.tables.predict_table",
        "epigram.inference.signing.require_signature",
    ],
    "evaluate": ["epigram.inference.predictors.open_predictor.open_predictor", "epigram.fitting.evaluate.evaluate"],
    "explain": [
        "epigram.inference.predictors.open_predictor.open_predictor",
        "epigram.inference.explanations.explain.explain",
        "epigram.core.files.write_text",
    ],
    "label": ["epigram.labelling.label_list.read_labels", "epigram.labelling.label.label_table"],
    "suggest": [
        "epigram.inference.predictors.open_predictor.open_predictor",
        "epigram.inference.suggestions.suggest",
        "epigram.inference.table_writer.check_output",
        "epigram.inference.table_writer.table_writer",
    ],
    "serve": ["epigram.inference.server.run.serve"],
    "export": ["epigram.inference.onnx.export.export", "epigram.inference.python_package.write_package"],
    "verify": [
        "epigram.models.manifest.verify",
        "epigram.models.manifest.read_provenance",
        "epigram.inference.signing.require_signature",
    ],
    "sign": ["epigram.inference.signing.sign"],
    "push": ["epigram.inference.hub.push"],
    "add": ["epigram.data.sources.add.add_source"],
    "init": [
        f"{RUNNER}.workspace.fitted_project.create_project",  # first, because its module imports `create`
        f"{RUNNER}.project.files.create",
        f"{RUNNER}.project.files.update",
    ],
    "dashboard": [f"{RUNNER}.service.process_manager.serve"],
    "systems": ["epigram.recipes.listing.list_systems"],
    "doctor": [f"{RUNNER}.doctor.installation.run_checks"],
}
PREDICTOR = SimpleNamespace(
    multi=False,
    room=9,
    min_confidence=0.0,
    default_word_label="",
    record=lambda answer: {"label": answer.label, "probabilities": answer.probabilities},
    predict=lambda texts, **_: [TextPrediction(["a"], 1.0, {"a": 1.0}, [], False) for _ in texts],
)
# What a worker returns; a command ends at any other worker.
ANSWERS: dict[str, Any] = {"open_predictor": PREDICTOR, "require_signature": None, "check_output": None, "history": []}
ANSWERS |= {"reserve": "grid", "verify": [], "read_provenance": {}, "list_systems": [], "run_checks": []}
ANSWERS |= {"read_labels": {"a": "", "b": ""}}
EXPLAINED = Explanation(text="a", label="b", probability=1.0, method="weights", words=[])
ANSWERS["explain"] = [EXPLAINED]
SCORED = ModelScores(
    rows=1,
    scores={},
    labels=[ClassScores(label="a", precision=1.0, recall=1.0, f1=1.0, support=1)],
    confusion=[],
    notes=[],
)
ANSWERS["evaluate"] = SCORED
ANSWERS["fit"] = SimpleNamespace(save=lambda folder: None)

TABLE = """{title: A table, page: one, printed: {}, seeds: [0], views: {token: {}}, minutes: {default: 1},
datasets: {MR: {source: mr, columns: [default]}}, rows: {MLP: {system: {recipe: mlp, view: token}},
SVM: {system: {recipe: tfidf_svm, view: token}}}}"""
CELL = TableCell("MR", "MLP", "default", 0, {"recipe": "mlp", "view": "token"})
CELL_OF_SVM = TableCell("MR", "SVM", "default", 0, {"recipe": "tfidf_svm", "view": "token"})
LABEL = "label texts.csv --labels labels.txt --out a.csv"
OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("run", "--dataset mr", {"execute.dataset": "mr"}),
    ("run", "--systems mlp,textcnn", {"execute.systems": ("mlp", "textcnn")}),
    ("run", "--seeds 3,4", {"execute.seeds": (3, 4)}),
    ("run", "--set a.b=2 --set c=[1]", {"execute.changes": {"a.b": 2, "c": [1]}}),
    ("run", "--max-silence 600", {"execute.max_silence": 600}),
    ("run", "--max-parallel 3", {"execute.max_parallel": 3}),
    ("run", "--name mine", {"execute.name": "mine"}),
    ("run", "--ray local", {"execute.ray": "local"}),
    ("run", "--search 20m", {"execute_search.seconds": 1200.0}),
    ("run", "--track mlflow", {"require.extra": "mlflow"}),
    ("sweep --over k=1,2", "--over l=[3]", {"execute_sweep.changes": {"k": 1, "l": [3]}}),
    ("sweep --over k=1,2", "--over dataset=mr,ced", {"execute_sweep.dataset": "mr"}),
    ("sweep --over k=1,2", "--dataset ced", {"execute_sweep.dataset": "ced"}),
    ("sweep --over k=1,2", "--systems mlp", {"execute_sweep.systems": ("mlp",)}),
    ("sweep --over k=1,2", "--seeds 5", {"execute_sweep.seeds": (5,)}),
    ("sweep --over k=1,2", "--set m=4", {"execute_sweep.changes": {"m": 4, "k": 1}}),
    ("sweep --over k=1,2", "--max-parallel 7", {"execute_sweep.at_once": 7}),
    ("sweep --over k=1,2", "--name mine", {"reserve.name": "mine"}),
    ("sweep --over k=1,2", "--ray auto", {"execute_sweep.ray": "auto"}),
    ("fit texts.txt --out one", "--text title,body", {"fit.text": ["title", "body"]}),
    ("fit texts.txt --out one", "--label stars", {"fit.label": "stars"}),
    ("fit texts.txt --out one", "--budget 20m", {"fit.budget": "20m"}),
    ("fit texts.txt --out one", "--metric f1:spam", {"fit.metric": "f1:spam"}),
    ("fit texts.txt --out one", "--language zh", {"fit.language": "zh"}),
    ("fit texts.txt --out one", "--encoding gbk", {"fit.options": {"encoding": "gbk"}}),
    ("fit texts.txt --out one", "--separator ;", {"fit.options": {"separator": ";"}}),
    ("fit texts.txt --out one", "--sheet B", {"fit.options": {"sheet": "B"}}),
    ("fit texts.txt --out one", "--group who", {"fit.group": "who"}),
    ("fit texts.txt --out one", "--time day", {"fit.time": "day"}),
    ("fit texts.txt --out one", "--ordered bad,good", {"fit.ordered": ["bad", "good"]}),
    ("fit texts.txt --out one", "--hierarchy >", {"fit.hierarchy": ">"}),
    ("fit texts.txt --out one --text one,two", "--pair", {"fit.pair": True}),
    ("fit texts.txt --out one", "--neighbors", {"fit.neighbors": True}),
    ("fit texts.txt --out one", "--slice shop,day", {"fit.slices": ["shop", "day"]}),
    ("fit texts.txt --out one", "--mask email,id", {"fit.mask": ["email", "id"]}),
    (
        "fit texts.txt --out one",
        "--out other",
        {"printed": 'report: other.html\nmodel:  other  (to try it: epigram predict other "a text")\n'},
    ),
    ("table one", "--list", {"remaining_minutes.missing": [CELL, CELL_OF_SVM]}),
    ("table one", "--rows SVM", {"make_trials.missing": [CELL_OF_SVM]}),
    ("retrain", "--dataset mr", {"call_flow.arguments": (Path.cwd(), "mr")}),
    ("retrain", "--rollback", {"rollback.root": Path.cwd()}),
    ("retrain", "--show", {"history.root": Path.cwd()}),
    ("retrain", "--rebuild", {"restore_data.root": Path.cwd()}),
    ("retrain --rebuild", "--dataset mr", {"restore_data.dataset": "mr"}),
    ("retrain", "--forget may.csv", {"withdraw_file.file": "may.csv"}),
    ("drift", "--file texts.txt", {"call_flow.arguments": (Path.cwd(), Path("texts.txt"))}),
    ("predict MODEL text", "--json", {"printed": '{"text": "text", "label": "a", "probabilities": {"a": 1.0}}\n'}),
    ("predict MODEL", "--file texts.txt", {"printed": "a\t1.000\tnice soup\n"}),
    ("predict MODEL text", "--min-confidence 0.5", {"open_predictor.min_confidence": 0.5}),
    ("predict MODEL text", "--device cuda:1", {"open_predictor.device": "cuda:1"}),
    ("predict MODEL text", "--require-signature key.pem", {"require_signature.key": Path("key.pem")}),
    ("predict MODEL texts.txt", "--out out.csv", {"predict_table.out": Path("out.csv")}),
    ("predict MODEL in.csv --out out.csv", "--text title,body", {"predict_table.text": ["title", "body"]}),
    ("predict MODEL in.csv --out out.csv", "--force", {"predict_table.force": True}),
    ("predict MODEL in.csv --out out.csv", "--level 1", {"predict_table.level": 1}),
    ("predict MODEL in.csv --out out.csv", "--encoding gbk", {"predict_table.options": {"encoding": "gbk"}}),
    ("predict MODEL in.csv --out out.csv", "--separator tab", {"predict_table.options": {"separator": "\t"}}),
    ("predict MODEL in.csv --out out.csv", "--sheet B", {"predict_table.options": {"sheet": "B"}}),
    ("explain MODEL text", "--method occlusion", {"explain.method": "occlusion"}),
    ("explain MODEL text", "--label b", {"explain.label": "b"}),
    ("explain MODEL text", "--faithfulness", {"explain.faithfulness": True}),
    ("evaluate MODEL in.csv", "--text title,body", {"evaluate.text": ["title", "body"]}),
    ("evaluate MODEL in.csv", "--label stars", {"evaluate.label": "stars"}),
    ("evaluate MODEL in.csv", "--encoding gbk", {"evaluate.options": {"encoding": "gbk"}}),
    ("evaluate MODEL in.csv", "--separator tab", {"evaluate.options": {"separator": "\t"}}),
    ("evaluate MODEL in.csv", "--sheet B", {"evaluate.options": {"sheet": "B"}}),
    ("evaluate MODEL in.csv", "--json", {"printed": f"{json.dumps(SCORED.to_dict())}\n"}),
    ("explain MODEL text", "--format json", {"printed": f"{json.dumps(EXPLAINED.to_dict())}\n"}),
    ("explain MODEL text", "--out out.txt", {"write_text.path": Path("out.txt")}),
    ("serve MODEL", "--host 0.0.0.0", {"serve.settings": ServerSettings(host="0.0.0.0", threads=count_processors())}),
    ("serve MODEL", "--port 81", {"serve.settings": ServerSettings(port=81, threads=count_processors())}),
    ("serve MODEL", "--threads 3", {"serve.settings": ServerSettings(threads=3)}),
    ("serve MODEL", "--min-confidence 0.5", {"serve.min_confidence": 0.5}),
    ("serve MODEL", "--max-texts 3", {"serve.settings": ServerSettings(max_texts=3, threads=count_processors())}),
    (
        "serve MODEL",
        "--max-characters 9",
        {"serve.settings": ServerSettings(max_characters=9, threads=count_processors())},
    ),
    ("serve MODEL", "--max-bytes 99", {"serve.settings": ServerSettings(max_bytes=99, threads=count_processors())}),
    ("serve MODEL", "--max-waiting 7", {"serve.settings": ServerSettings(max_waiting=7, threads=count_processors())}),
    (LABEL, "--labels other.txt", {"read_labels.path": Path("other.txt")}),
    (LABEL, "--out b.csv", {"label_table.out": Path("b.csv")}),
    (LABEL, "--text title,body", {"label_table.text": ["title", "body"]}),
    (LABEL, "--language zh", {"label_table.language": "zh"}),
    (LABEL, "--endpoint http://b/v1 --model m", {"label_table.endpoint": Endpoint("http://b/v1", "m")}),
    (LABEL, "--yes", {"label_table.agree": Question("", yes=True)}),
    (LABEL, "--force", {"label_table.force": True}),
    (LABEL, "--encoding gbk", {"label_table.options": {"encoding": "gbk"}}),
    (LABEL, "--separator ;", {"label_table.options": {"separator": ";"}}),
    (LABEL, "--sheet B", {"label_table.options": {"sheet": "B"}}),
    ("suggest MODEL pool.csv --out a.csv", "--sheet B", {"suggest.options": {"sheet": "B"}}),
    ("suggest MODEL pool.txt --out a.csv", "--encoding gbk", {"suggest.options": {"encoding": "gbk"}}),
    ("suggest MODEL pool.csv --out a.csv", "--separator ;", {"suggest.options": {"separator": ";"}}),
    ("suggest MODEL pool.txt --out a.csv", "--out b.csv", {"check_output.path": Path("b.csv")}),
    ("suggest MODEL pool.txt --out a.csv", "--format label-studio", {"check_output.suffixes": (".json",)}),
    ("suggest MODEL pool.txt --out a.csv", "--text review", {"suggest.text": ["review"]}),
    ("suggest MODEL pool.txt --out a.csv", "--count 7", {"suggest.count": 7}),
    ("suggest MODEL pool.txt --out a.csv", "--force", {"check_output.force": True}),
    ("export MODEL exported", "--int8", {"export.int8": True}),
    ("export MODEL exported", "--to openvino", {"export.to": "openvino"}),
    ("export MODEL exported", "--to package", {"write_package.out": Path("exported")}),
    ("export MODEL exported --to package", "--version 2.0", {"write_package.version": "2.0"}),
    ("verify MODEL", "--require-signature key.pem", {"require_signature.key": Path("key.pem")}),
    ("push me/reviews", "--model one", {"push.folder": Path("one")}),
    ("push me/reviews", "--private", {"push.private": True}),
    ("push me/reviews", "--training-texts", {"push.training_texts": True}),
    ("sign MODEL --key one.pem", "--key other.pem", {"sign.key": Path("other.pem")}),
    ("add rows.csv", "--text title,body", {"add_source.text": ["title", "body"]}),
    ("add rows.csv", "--label stars", {"add_source.label": "stars"}),
    ("add rows.csv", "--slice shop,day", {"add_source.slices": ["shop", "day"]}),
    ("add rows.csv", "--split part", {"add_source.split": "part"}),
    ("add rows.csv", "--no-split", {"add_source.split": ""}),
    ("add rows.csv", "--label-separator |", {"add_source.label_separator": "|"}),
    ("add rows.csv", "--language zh", {"add_source.language": "zh"}),
    ("add rows.csv", "--name mine", {"add_source.name": "mine"}),
    ("add rows.csv", "--replace", {"add_source.replace": True}),
    ("add rows.csv", "--encoding gbk", {"add_source.options": {"encoding": "gbk"}}),
    ("add rows.csv", "--separator |", {"add_source.options": {"separator": "|"}}),
    ("add rows.csv", "--sheet B", {"add_source.options": {"sheet": "B"}}),
    ("add rows.csv", "--group who", {"add_source.group": "who"}),
    ("add rows.csv", "--time day", {"add_source.time": "day"}),
    ("add rows.csv", "--ordered bad,good", {"add_source.ordered": ["bad", "good"]}),
    ("add rows.csv", "--hierarchy >", {"add_source.hierarchy": ">"}),
    ("init demo", "--update", {"update.root": Path("demo")}),
    (
        "init demo",
        "--from one --data two.csv",
        {f"create_project.{name}": Path(value) for name, value in (("model", "one"), ("data", "two.csv"))},
    ),
    ("dashboard", "--port 4321", {"serve.port": 4321}),
    ("systems", "--json", {"printed": "[]\n"}),
    ("doctor", "--json", {"printed": "[]\n"}),
]

REFUSED = [
    ("run --search 20m --seeds 1", "--search chooses for params.yaml"),
    ("run --search 20m --systems mlp", "--search chooses for params.yaml"),
    ("run --search 20m --set a=1", "--search chooses for params.yaml"),
    ("run --search 20m --dataset mr", "--search chooses for params.yaml"),
    ("run --search soon", "invalid budget 'soon'"),
    ("retrain --rollback --show", "--rollback and --show cannot be combined"),
    ("retrain --rebuild --forget may.csv", "--rebuild and --forget cannot be combined"),
    ("predict MODEL text --file texts.txt", "texts are given as arguments"),
    ("predict MODEL text --text review", "--text needs a table and --out"),
    ("predict MODEL text --force", "--force needs a table and --out"),
    ("predict MODEL text --separator ;", "--separator needs a table and --out"),
    ("predict MODEL text --sheet B", "--sheet needs a table and --out"),
    ("predict MODEL text --encoding gbkk", "--encoding is 'gbkk'; expected a known encoding"),
    ("add rows.csv --separator ab", "--separator is 'ab'; expected one ASCII character, or tab"),
    ("predict MODEL in.csv --out out.csv --json", "--out needs one table and no --json"),
    ("suggest MODEL pool.txt --out a.csv --count 0", "--count is 0"),
    (f"{LABEL} --endpoint http://b/v1", "--endpoint and --model belong together"),
    (f"{LABEL} --model m", "--endpoint and --model belong together"),
    ("serve MODEL other/MODEL", "two models are called 'MODEL'"),
    ("add rows.csv --split part --no-split", "--split is 'part', and --no-split is given"),
    ("export MODEL exported --version 2.0", "--version needs --to package"),
    ("export MODEL exported --to package --int8", "--int8 needs --to onnx"),
    ("export MODEL exported --to openvino --int8", "--int8 needs --to onnx"),
    ("table one --list --rows MLP", "--rows chooses what is measured, and --list measures nothing"),
    ("table one --rows MLP,SWM", "A table has no row 'SWM': did you mean 'SVM'"),
    ("init", "the folder is missing"),
    ("init demo --from one", "--from needs --data"),
    ("init demo --data two.csv", "--from needs --data"),
    ("init demo --update --from one --data two.csv", "cannot be combined with --update"),
]


class Done(Exception):
    """The end of a command at its worker."""


def flat(name: str, value: Any) -> Mapping[str, Any]:
    """Return the fields of a request (of the first one, in a list of trials), else `value` under its `name`."""
    if isinstance(value, list) and value and hasattr(value[0], "request"):
        value = value[0].request
    if is_dataclass(value) and type(value).__name__ == "Request":
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: value}


def recorder(path: str, calls: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that writes its arguments into `calls` instead of doing the work of the function `path`."""
    module, _, name = path.rpartition(".")
    real = getattr(importlib.import_module(module), name)
    signature = inspect.signature(real)

    @functools.wraps(real)
    def record(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        for argument, value in bound.arguments.items():
            calls.update({f"{name}.{key}": each for key, each in flat(argument, value).items()})
        if name not in ANSWERS:
            raise Done
        return ANSWERS[name]

    return record


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Return a function that runs a command line in a folder and returns what its workers were called with."""
    monkeypatch.setattr("epigram.core.settings.dataset_of", lambda file: "default")
    monkeypatch.setattr("epigram.cli.projects.dashboard.enter_project", lambda *arguments: tmp_path)
    for module in ("runs.run", "runs.sweep", "runs.retrain", "runs.drift", "runs.table"):
        monkeypatch.setattr(f"epigram.cli.{module}.find_flow", lambda *arguments: None)
    program = Typer()
    for name, main in cli.COMMANDS.items():
        program.command(name)(main)

    def run(line: str) -> dict[str, Any]:
        calls: dict[str, Any] = {}
        for path in WORKERS[line.split(maxsplit=1)[0]]:
            monkeypatch.setattr(path, recorder(path, calls))
        shown = CliRunner().invoke(program, line.split())
        if shown.exception is not None and not isinstance(shown.exception, Done | SystemExit):
            raise shown.exception
        return calls | {"printed": shown.stdout}

    git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)
    Path("benchmarks/tables").mkdir(parents=True)
    Path("benchmarks/tables/one.yaml").write_text(TABLE, encoding="utf-8")
    Path("texts.txt").write_text("nice soup\n", encoding="utf-8")
    return run


def in_folder(value: Any) -> Any:
    """Return an expected value in which the folder that this module was imported in is the current one."""
    if isinstance(value, tuple):
        return tuple(map(in_folder, value))
    return Path.cwd() if value == HERE else value


HERE = Path.cwd()


@pytest.mark.parametrize(("command", "option", "reached"), OPTIONS, ids=[" ".join(row[:2]) for row in OPTIONS])
def test_an_option_reaches_what_it_is_for(
    command: str, option: str, reached: dict[str, Any], call: Callable[[str], dict[str, Any]]
) -> None:
    found, without = call(f"{command} {option}"), call(command)
    for name, value in reached.items():
        assert found.get(name) == in_folder(value)
        assert without.get(name) != in_folder(value)


@pytest.mark.parametrize(("line", "reason"), REFUSED)
def test_options_that_exclude_each_other_are_refused(
    line: str, reason: str, call: Callable[[str], dict[str, Any]]
) -> None:
    with pytest.raises(ParameterError, match=reason):
        call(line)


def test_the_table_has_every_option_of_every_command() -> None:
    commands: Any = get_command(cli.cli)
    tested = {(row[0].split()[0], word) for row in OPTIONS for word in row[1].split() if word.startswith("--")}
    existing = {
        (name, parameter.opts[0])
        for name, command in commands.commands.items()
        for parameter in command.params
        if parameter.opts[0].startswith("--") and parameter.opts[0] != "--help"
    }
    assert tested == existing
