"""Check the locked packages for known vulnerabilities: python -m tests.audit, part of make checks.

If no vulnerability service can be reached, the check prints SKIPPED and does not fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
SERVICES = ("pypi", "osv")
LIMIT = 240  # seconds per service


def main() -> int:
    """Print the known vulnerabilities; return 1 if a package has any."""
    reason = ""
    for service in SERVICES:
        found, reason = asked(service)
        if found:
            return verdict(found)
    print(f"pip-audit: SKIPPED, no service can be asked ({reason})")
    return 0


def asked(service: str) -> tuple[list[dict[str, Any]], str]:
    """Return the packages that `service` knows, or the reason why it returned none."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--no-deps", "--disable-pip"]
    command += ["--vulnerability-service", service, "--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return [], f"{service}: no answer in {LIMIT} s"
    except (ValueError, KeyError):
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        return [], f"{service}: {said[-1][:80]}"
    known = [package for package in packages if "skip_reason" not in package]
    return known, "" if known else f"{service} knows none of {len(packages)} packages"


def verdict(packages: list[dict[str, Any]]) -> int:
    """Print the vulnerabilities of `packages` with the versions that fix them; return 1 if there are any."""
    faulty = [package for package in packages if package["vulns"]]
    for package in faulty:
        for fault in package["vulns"]:
            mended = ", ".join(fault["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {fault['id']}, mended in {mended}")
    print(f"pip-audit: {len(faulty)} of {len(packages)} packages have known faults")
    return bool(faulty)


if __name__ == "__main__":
    sys.exit(main())
