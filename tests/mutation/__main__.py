"""Mutation testing: change the code in one place, and see whether a test fails.

python -m tests.mutation map       record which tests execute which lines; only new and changed test files run
python -m tests.mutation run       run the mutants that have no result yet
python -m tests.mutation list      print the survivors
python -m tests.mutation report    write the results into docs/development/quality.md
"""

from __future__ import annotations

import argparse
from fnmatch import fnmatch

from tests.mutation import coverage_map, forks, report, runner
from tests.mutation.mutants import Mutant, handwritten, sample


def main() -> None:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=["map", "run", "list", "report"])
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    parser.add_argument("--only", nargs="+", metavar="ID", help="run these mutants again; * matches anything")
    parser.add_argument("--survivors", action="store_true", help="run the mutants again that survived")
    arguments = parser.parse_args()
    if arguments.command == "list":
        print(report.survivors())
    elif arguments.command == "report":
        report.write()
    else:
        forks.preload()
        coverage_map.refresh(arguments.workers)
        if arguments.command == "run":
            mutants = chosen(arguments.only, arguments.survivors)
            runner.run(mutants, arguments.workers, {} if arguments.only else runner.results())


def chosen(only: list[str] | None, survivors: bool) -> list[Mutant]:
    """Return the mutants to run: those named in `only`, the survivors, or those without a result."""
    mutants, known = [*handwritten(), *sample()], runner.results()
    if only:
        return [mutant for mutant in mutants if any(fnmatch(mutant.id, pattern) for pattern in only)]
    if survivors:
        return [mutant for mutant in mutants if known.get(mutant.id, {}).get("status", "killed") != "killed"]
    return [mutant for mutant in mutants if mutant.id not in known]


if __name__ == "__main__":
    main()
