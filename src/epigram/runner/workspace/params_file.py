"""Changes of params.yaml that keep its comments."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError
from epigram.core.files import atomic_file
from epigram.core.settings import check_names, read_params

Params = MutableMapping[str, Any]


@contextmanager
def edited(path: Path) -> Iterator[Params]:
    """Yield the content of the params.yaml at `path`, and write it back when the caller has changed it.

    Raises ParameterError if the file cannot be read, or if a name is invalid after the change.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    read_params(path)  # raises a clear error if the file cannot be read
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000
    try:
        params = yaml.load(path)
    except YAMLError as error:  # for example a duplicate key
        raise ParameterError(f"{path.name} is not valid YAML: {shown(' '.join(str(error).split()))}") from None
    yield params
    check_names(params)
    with atomic_file(path) as temporary:
        yaml.dump(params, temporary)
