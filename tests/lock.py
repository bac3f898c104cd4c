"""Write the hashes of the locked packages: python -m tests.lock.

To change the version of a package, edit its line in the file with its hashes and run this. The hashes cover every file
of that version in the package index, for all platforms; uv (pip install uv) fetches them. The CPU build of PyTorch is
only in PyTorch's own index: its hash is in this file.

requirements-run.lock    what a run needs: the dependencies, the extras `pipeline` and `serve`, and all they depend on
requirements-test.lock   what the tests and checks need in addition: the extra `dev`
requirements-build.lock  what packages without a wheel are built with
requirements-cuda.lock   what the package index's build of PyTorch needs on Linux; derived from its version
requirements-peers.lock  what the benchmarks compare with
requirements.lock        the versions of the first two, as constraints: pip accepts no hashes beside a local wheel
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS, CUDA = "requirements.lock", "requirements-cuda.lock"
RUN, TEST = "requirements-run.lock", "requirements-test.lock"
PINNED = (RUN, TEST, "requirements-build.lock", "requirements-peers.lock")
CPU = {  # torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
    "torch==2.13.0": ["6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"]
}
PYTHON = "3.11"  # the oldest supported version


def main() -> int:
    """Write every lock file; return uv's exit code if it fails."""
    pins = sorted([*pins_of(RUN), *pins_of(TEST)], key=name_of)
    write(CONSTRAINTS, {pin: [] for pin in pins})
    try:
        for name in PINNED:
            write(name, hashed(pins_of(name), "--no-deps"))
        torch = hashed([pin for pin in pins if pin.startswith("torch==")], "--constraint", CONSTRAINTS, "--universal")
    except subprocess.CalledProcessError as error:
        return error.returncode
    known = set(map(name_of, pins))
    write(CUDA, {pin: found for pin, found in torch.items() if name_of(pin) not in known})
    return 0


def pins_of(name: str) -> list[str]:
    """Return the lines NAME==VERSION of a lock file."""
    return re.findall(r"^[^\s#]+==[^\s\\]+", (ROOT / name).read_text(), re.MULTILINE)


def name_of(pin: str) -> str:
    """Return the normalized name of a package in the index."""
    return re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower()


def hashed(requirements: list[str], *options: str) -> dict[str, list[str]]:
    """Return what uv resolves `requirements` to: NAME==VERSION, with its marker if any, mapped to its hashes."""
    command = ["uv", "pip", "compile", "-", "--generate-hashes", "--python-version", PYTHON, "--quiet", *options]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url"]
    text = "\n".join(requirements)
    said = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout
    found: dict[str, list[str]] = {}
    for block in re.findall(r"^\S.*\n(?: .*\n)+", said, re.MULTILINE):
        pin = block.partition("\\")[0].strip()
        found[pin] = sorted({*re.findall(r"sha256:(\w+)", block), *CPU.get(pin, [])})
    return found


def write(name: str, packages: dict[str, list[str]]) -> None:
    """Write a lock file in the format of pip."""
    blocks = [" \\\n    ".join([pin, *(f"--hash=sha256:{each}" for each in found)]) for pin, found in packages.items()]
    text = "\n".join(["# Written by python -m tests.lock.", *blocks, ""])
    (ROOT / name).write_text(text)
    print(f"{name}: {len(packages)} packages")


if __name__ == "__main__":
    sys.exit(main())
