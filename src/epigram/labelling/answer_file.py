"""Answers of a run that has not ended, in a file beside its output: labelled texts are not sent again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from epigram.core.config_types import parse_json
from epigram.core.errors import ParameterError
from epigram.core.files import write_text
from epigram.labelling.endpoint import Endpoint
from epigram.labelling.label_list import Answer, Labels


class AnswerFile:
    """File of the answers of one endpoint and model for some labels: a line for the settings, and one for each request.

    A last line that a crash has cut is dropped. Raises ParameterError if the file has the answers of other settings.
    """

    def __init__(self, path: Path, endpoint: Endpoint, labels: Labels) -> None:
        self.path, self._lock = path, Lock()
        settings = json.dumps([endpoint.url, endpoint.model, list(labels.items())]).encode()
        self._header = hashlib.sha256(settings).hexdigest()  # an address may have a password
        self.answers: dict[str, Answer] = {}
        if path.exists():
            self._read()

    def add(self, answers: Mapping[str, Answer]) -> None:
        """Keep the answers of a request, also on disk; called from several threads."""
        with self._lock:
            lines = [] if self.path.exists() else [self._header]
            lines.append(json.dumps(answers))
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
            self.answers |= answers

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> None:
        whole, _, _ = self.path.read_text(encoding="utf-8").rpartition("\n")
        if not whole:
            return self.remove()
        header, *lines = whole.split("\n")
        if header != self._header:
            raise ParameterError(
                f"{self.path} has answers for other labels, or of another endpoint or model; delete it, or choose "
                "another file for --out"
            )
        for line in lines:
            values = parse_json(line)
            self.answers |= {text: (name, confidence) for text, (name, confidence) in values.items()}
        return write_text(self.path, f"{whole}\n")
