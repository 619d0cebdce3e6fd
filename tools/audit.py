"""Compare installed and locked packages with published security advisories (`make audit`).

    python tools/audit.py                                   download the advisories of all Python packages, and compare
    python tools/audit.py --advisories advisories.zip       the same without a network
    python tools/audit.py --advisories GHSA-xxxx.json

Advisories are read in the OSV format: the archive of OSV (https://osv.dev), a folder of JSON files, or one file. pip-audit is
better known, but it asks a service about each package and has no offline mode.

Exit code: 0 if no advisory matches, 1 if one does, 3 if there are no advisories to compare with.
"""

import argparse
import json
import re
import sys
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parent.parent
SOURCE = "https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip"
LOCKS = ("constraints.txt", "requirements.lock")
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True)
class Match:
    """An advisory that applies to a package."""

    name: str
    version: str
    advisory: str
    summary: str
    fixed: str


def read_lock(path: Path) -> dict[str, str]:
    """Return the versions of a file of `name==version` lines, by normalised name."""
    return {canonicalize_name(name): version for name, version in _PIN.findall(path.read_text(encoding="utf-8"))}


def installed() -> dict[str, str]:
    """Return the versions of the packages of this environment."""
    return {canonicalize_name(each.name): each.version for each in distributions() if each.name}


def read_advisories(path: Path) -> Iterator[dict[str, Any]]:
    """Read advisories from an archive, a folder, or a file of one advisory or a list of them."""
    if path.is_dir():
        texts: Iterable[bytes | str] = (each.read_bytes() for each in sorted(path.rglob("*.json")))
    elif zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        texts = (archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".json"))
    else:
        texts = [path.read_bytes()]
    for text in texts:
        found = json.loads(text)
        yield from found if isinstance(found, list) else [found]


def find_matches(packages: Mapping[str, str], advisories: Iterable[Mapping[str, Any]]) -> list[Match]:
    """Return the advisories that apply to packages."""
    found = set()
    for advisory in advisories:
        for affected in [] if advisory.get("withdrawn") else advisory.get("affected", ()):
            package = affected.get("package", {})
            name = canonicalize_name(package.get("name", ""))
            if package.get("ecosystem") == "PyPI" and name in packages and _applies(affected, packages[name]):
                summary = advisory.get("summary") or advisory.get("details", "").strip().partition("\n")[0]
                found.add(Match(name, packages[name], advisory["id"], summary[:200], ", ".join(_fixed(affected))))
    return sorted(found, key=lambda match: (match.name, match.version, match.advisory))


def _applies(affected: Mapping[str, Any], version: str) -> bool:
    return version in affected.get("versions", ()) or any(_in_range(events, version) for events in _events(affected))


def _events(affected: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, str]]]:
    return (each.get("events", ()) for each in affected.get("ranges", ()) if each.get("type") in ("ECOSYSTEM", "SEMVER"))


def _in_range(events: Sequence[Mapping[str, str]], version: str) -> bool:
    """Follow the events up to a version: the last one decides whether the version is affected."""
    try:
        ours, affected = Version(version), False
        for event in sorted(events, key=lambda event: Version(next(iter(event.values())))):
            [(kind, text)] = event.items()
            if kind == "introduced" and Version(text) <= ours:
                affected = True
            elif (kind == "fixed" and Version(text) <= ours) or (kind == "last_affected" and Version(text) < ours):
                affected = False
    except (InvalidVersion, ValueError):
        return False  # no version of a Python package; such advisories list what they affect under `versions`
    return affected


def _fixed(affected: Mapping[str, Any]) -> list[str]:
    return [event["fixed"] for events in _events(affected) for event in events if "fixed" in event]


def fetch(path: Path, source: str = SOURCE) -> str:
    """Download the archive of advisories; returns what went wrong, empty if nothing did."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    try:
        with urllib.request.urlopen(source, timeout=60) as answer:
            draft.write_bytes(answer.read())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        return str(error)
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print what applies."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--advisories", type=Path, help="a saved archive, folder or file (default: download it)")
    parser.add_argument("--source", default=SOURCE, help="address of the archive (default: OSV's)")
    options = parser.parse_args(arguments)
    path = options.advisories or ROOT / "build" / "advisories.zip"
    if options.advisories is None and (wrong := fetch(path, options.source)):
        print(
            f"audit: cannot reach {options.source} ({wrong}), so NOTHING WAS CHECKED. Download it elsewhere and run "
            "make audit ADVISORIES=all.zip",
            file=sys.stderr,
        )
        return 3
    try:
        advisories = list(read_advisories(path))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        print(f"audit: {path} holds no advisories in the OSV format ({error}), so NOTHING WAS CHECKED", file=sys.stderr)
        return 3
    newest = max((str(each.get("modified", "")) for each in advisories), default="")[:10]
    print(f"{len(advisories):,} advisories, the newest of {newest or 'an unknown date'}")
    failed = False
    for where, packages in [("installed", installed()), *((name, read_lock(ROOT / name)) for name in LOCKS)]:
        matches = find_matches(packages, advisories)
        print(f"{where}: {len(packages)} packages, {len(matches)} advisories apply")
        for match in matches:
            print(f"  {match.name} {match.version}: {match.advisory}: {match.summary} (fixed in {match.fixed or 'no version'})")
        failed = failed or bool(matches)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
