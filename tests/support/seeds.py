"""A small valid file of every format that epigram reads, and the function that reads it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.support.mutations import Mutation, blind, in_json

ROWS = [(f"这个{thing}{word}", label) for thing in "菜店书屏片家" for word, label in (("好", "good"), ("差", "bad"))]
GIVEN: dict[str, Any] = {"name": "toy", "about": "", "language": "zh", "task": "single", "licence": ""}


@dataclass(frozen=True)
class Format:
    """One file in its folder, with the functions that corrupt and read it."""

    name: str
    folder: Path
    file: str
    read: Callable[[Path], object]  # reads the folder
    mutations: tuple[Mutation, ...] = (blind,)
    renew: Callable[[Path], None] | None = None  # rewrites checksums, so that later checks are reached

    @property
    def path(self) -> Path:
        """Return the file that is corrupted."""
        return self.folder / self.file


def inside(unwrap: Callable[[bytes], bytes], wrap: Callable[[bytes], bytes], change: Mutation = blind) -> Mutation:
    """Return a mutation of the content of a container."""
    return lambda data, random: wrap(change(unwrap(data), random))


def as_yaml(data: bytes, random: Random) -> bytes:
    import yaml

    return yaml.safe_dump(json.loads(in_json(json.dumps(yaml.safe_load(data)).encode(), random))).encode()


def in_header(data: bytes, random: Random) -> bytes:
    """Change the header of a safetensors file and keep its length field right."""
    size = int.from_bytes(data[:8], "little")
    header = in_json(data[8 : 8 + size], random)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def in_array(data: bytes, random: Random) -> bytes:
    """Change the header or the content of a .npy file and keep its length."""
    place = random.choice((random.randrange(10, 80), random.randrange(80, len(data))))
    piece = random.choice((b"9", b"-", b"8", b"O", b"True", b"(", b"\xff", b"\0"))
    return data[:place] + piece + data[place + len(piece) :]


def tar(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return packed.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def in_npz(data: bytes, random: Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    name = random.choice(list(files))
    return zipped({**files, name: random.choice((blind, in_array))(files[name], random)})


def corpus(folder: Path, content: bytes | str, read: dict[str, Any], **changes: Any) -> Format:
    """Return a file of texts that is read as `validate` reads it."""
    name = changes.pop("called", read["reader"])

    def answer(here: Path) -> None:
        from epigram.data.corpus import read_corpus
        from epigram.data.sources.source import File, Source

        files = [File(path="x", local="x")]
        frame = read_corpus(Source(**{**GIVEN, "files": files, "read": read, **changes}), here)
        assert {"text", "file", "line"} <= set(frame.columns)

    here = folder / name
    here.mkdir()
    (here / "x").write_bytes(content.encode() if isinstance(content, str) else content)
    jsons = (in_json,) if read["reader"] == "json" else ()
    return Format(name, here, "x", answer, (blind, *jsons))


def of_corpora(folder: Path) -> list[Format]:
    import polars as pl

    lines = "".join(f'"{text}",{label},train\n' for text, label in ROWS)
    objects = [{"text": text, "label": label, "spans": [{"start": 0, "end": 2, "label": "X"}]} for text, label in ROWS]
    parquet = io.BytesIO()
    pl.DataFrame(objects).write_parquet(parquet)
    sentence = {"default": "O", "plain": "none", "marked": "some"}
    words = "".join(f"{text[:2]}\tO\n{text[2:]}\tB-{label}\n\n" for text, label in ROWS)
    conllu = "# text = x\n1-2\tab\t_\n1\ta\tNOUN\n2\tb\tVERB\n\n1\tc\tADJ\n"
    edits = "S I has a apple\nA 1 2|||R:VERB:SVA|||have|||REQUIRED|||-NONE-|||0\nA 4 4|||M:PUNCT|||.|||R|||N|||0\n\n"
    reuters = (
        b'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN"><TOPICS><D>a</D></TOPICS><TEXT><TITLE>b</TITLE></TEXT></REUTERS>'
    )
    posts = {f"r/train/{label}/{place}": text.encode() for place, (text, label) in enumerate(ROWS)}
    papers = {f"p/{place}.json": json.dumps({"text": text}).encode() for place, (text, _) in enumerate(ROWS[:2])}
    formats = [
        corpus(folder, f"text,label,split\n{lines}", {"reader": "csv", "split": "split"}, splits={"train": ["train"]}),
        corpus(
            folder,
            f"text\tlabel\n{lines}".replace(",train\n", "\n").replace(",", "\t"),
            {"reader": "csv", "separator": "\t", "quote": None, "label_separator": "|"},
            called="tsv",
            task="multi",
        ),
        corpus(folder, "\n".join(map(json.dumps, objects)), {"reader": "jsonl", "spans": "spans"}),
        corpus(folder, parquet.getvalue(), {"reader": "parquet", "spans": "spans"}),
        corpus(folder, json.dumps({"text": ["a", "b"], "label": [["x"], ["y"]]}), {"reader": "json"}, task="multi"),
        corpus(folder, "".join(f"{text}\n" for text, _ in ROWS), {"reader": "lines", "file_label": "a"}),
        corpus(folder, words, {"reader": "conll", "prefix": "drop", "sentence": sentence}),
        corpus(folder, conllu, {"reader": "conll", "numbered": True, "comment": "#"}, task="tokens", called="conllu"),
        corpus(folder, edits * 3, {"reader": "m2", "types": {"PUNCT": "p"}, "sentence": sentence | {"default": "c"}}),
        corpus(folder, "(3 (2 good) (2 film))\n" * 3, {"reader": "trees"}),
        corpus(folder, tar(posts), {"reader": "posts"}, splits={"train": ["train"]}),
        corpus(folder, tar({"reut2-000.sgm": reuters}), {"reader": "reuters"}, task="multi"),
        corpus(folder, tar(papers), {"reader": "json_files", "lists": {"a": "a.txt", "b": "b.txt"}}),
    ]
    (folder / "json_files" / "a.txt").write_text("0.json\n")
    (folder / "json_files" / "b.txt").write_text("1.json\n")
    return formats


def of_archives(folder: Path) -> list[Format]:
    from epigram.data.sources import archives

    here = folder / "archives"
    here.mkdir()
    files = {"r/posts/a.txt": "好".encode() * 40, "r/posts/b.txt": b"b", "r/notes.md": b"no"}
    packed = tar(files)
    (here / "x.zip").write_bytes(zipped(files))
    (here / "x.tar").write_bytes(packed)
    (here / "x.tar.gz").write_bytes(gzip.compress(packed))
    (here / "x.gz").write_bytes(gzip.compress(b"text,label\n" * 9))
    unpacked: Mutation = inside(gzip.decompress, gzip.compress)

    def repack(name: str) -> Callable[[Path], None]:
        def read(at: Path) -> None:
            archives.repack(at / name, at / "out", ["posts/*"])
            archives.write_names(at / name, at / "out", ["posts/*"])

        return read

    return [
        Format("zip", here, "x.zip", repack("x.zip")),
        Format("tar", here, "x.tar", repack("x.tar")),
        Format("tar.gz", here, "x.tar.gz", repack("x.tar.gz"), (blind, unpacked)),
        Format("gz", here, "x.gz", lambda at: archives.gunzip(at / "x.gz", at / "out"), (blind, unpacked)),
    ]


def of_settings(folder: Path) -> list[Format]:
    import yaml

    from epigram.data.sources.source import read_source
    from epigram.runner.workspace.settings import load

    here, root = folder / "settings", Path(__file__).parents[2]
    here.mkdir()
    for name, origin in (("params.yaml", "params.yaml"), ("mr.yaml", "data/sources/mr.yaml")):
        (here / name).write_bytes((root / origin).read_bytes())
    (here / "source.json").write_text(json.dumps(yaml.safe_load((here / "mr.yaml").read_text())))

    def override(at: Path) -> None:
        from epigram.runner.workspace.overrides import check
        from epigram.runner.workspace.request import Request

        (at / "data" / "sources").mkdir(parents=True, exist_ok=True)
        (at / "data" / "sources" / "pocket_zh.yaml").touch()
        check(Request(root=at, seeds=(3,), systems=("tfidf_svm",), changes={"train.epochs": 2}))

    return [
        Format("params.yaml", here, "params.yaml", lambda at: load(at / "params.yaml"), (blind, as_yaml)),
        Format("overridden params.yaml", here, "params.yaml", override, (blind, as_yaml)),
        Format("source.yaml", here, "mr.yaml", lambda at: read_source(at / "mr.yaml"), (blind, as_yaml)),
        Format("source.json", here, "source.json", lambda at: read_source(at / "source.json"), (blind, in_json)),
    ]
