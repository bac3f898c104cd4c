"""Build of the wheel: everything is in pyproject.toml, except the copy of the project template."""

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
FILES_OF = runpy.run_path(str(ROOT / "src/epigram/runner/project/template.py"))["files_of"]


class BuildWithTemplate(build_py):
    """Build of the package with the files of a new project in epigram/template."""

    def run(self) -> None:
        """Build the package from nothing, then copy the template."""
        if self.editable_mode:  # `epigram init` reads the repository
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)  # files of an earlier build
        super().run()
        for name, path in FILES_OF(ROOT).items():
            target = Path(self.build_lib, "epigram", "template", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


setup(cmdclass={"build_py": BuildWithTemplate})
