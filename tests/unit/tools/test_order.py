"""A parallel run begins with the long files."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = {
    "test_a": "def test_many(): ...\ndef test_more(): ...\n",
    "test_b": "import pytest\ndef test_first(): ...\n@pytest.mark.slow\ndef test_long(): ...\n",
}
COLLECTED = ["test_a.py::test_many", "test_a.py::test_more", "test_b.py::test_first", "test_b.py::test_long"]
LONG_FIRST = [*COLLECTED[2:], *COLLECTED[:2]]


class Order:
    """Record the order of the collected tests, after the hook of tests/conftest.py."""

    found: list[str]

    def __init__(self, *, worker: bool) -> None:
        self.worker = worker

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "slow: long")
        if self.worker:
            config.workerinput = {}  # type: ignore[attr-defined]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.found = [item.nodeid for item in session.items]


@pytest.mark.parametrize(("worker", "expected"), [(True, LONG_FIRST), (False, COLLECTED)])
def test_a_parallel_run_begins_with_the_files_that_have_a_slow_test(
    tmp_path: Path, *, worker: bool, expected: list[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems  # noqa: F401\n")
    order = Order(worker=worker)
    options = ["--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--import-mode=importlib"]
    assert pytest.main([*options, f"--rootdir={tmp_path}", str(tmp_path)], plugins=[order]) == 0
    assert order.found == expected
