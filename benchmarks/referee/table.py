"""The referee on every library, each in its own environment, and docs/reference/referee.md.

    python benchmarks/install.py            # once: the environments
    python benchmarks/referee/table.py      # some minutes on two cores

A library fails a property (✗) only where a script that knows nothing of troth shows the same (confirm/); a failure that
no such script confirms is a question (?) to us.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(ROOT / "src")]

from install import python_of  # noqa: E402  # a neighbor
from known_issues import ISSUES, KNOWN, NOT_HERE  # noqa: E402

LIBRARIES = ("captum", "shap", "lime", "ferret", "interpreto", "transformers_interpret", "solvex", "shapiq")
RESULTS = ROOT / "build" / "referee"
PAGE = ROOT / "docs" / "reference" / "referee.md"
MARKS = ("<!-- referee: written by benchmarks/referee/table.py -->", "<!-- /referee -->")
SCRIPTS = "benchmarks/referee/confirm"


def run(script: str, library: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    command = [str(python_of(library)), str(HERE / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


def measure(library: str) -> dict[str, Any]:
    """What the referee says of a library; the reason where it does not run."""
    done = run("run.py", library, library)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
        return {"library": library, "versions": {}, "methods": [], "error": reason}
    result: dict[str, Any] = json.loads(done.stdout)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{library}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False))
    return result


def confirm(library: str, name: str) -> str | None:
    """What a script of its own says of a failure; None where there is none, or where it shows nothing."""
    script = HERE / "confirm" / f"{library}_{name}.py"
    if not script.exists():
        return None
    done = run(f"confirm/{script.name}", library)
    return done.stdout.strip().splitlines()[-1].removeprefix("shown: ") if done.returncode == 0 else None


def failures(results: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[str, dict[str, Any]]]]:
    """By library and property: the methods that fail it, and how."""
    found: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {}
    for result in results:
        for method in result["methods"]:
            for each in method["properties"]:
                if each["status"] == "fails":
                    found.setdefault((result["library"], each["property"]), []).append((method["method"], each))
    return found


def cell(result: dict[str, Any], name: str, confirmed: dict[tuple[str, str], str | None]) -> str:
    rows = [each for method in result["methods"] for each in method["properties"] if each["property"] == name]
    statuses = [row["status"] for row in rows]
    if "fails" in statuses:
        key = result["library"], name
        return f"[✗](#{key[0]}-{key[1]})" if confirmed.get(key) else "?"
    return "✓" if "holds" in statuses else "–"


def page(results: list[dict[str, Any]], confirmed: dict[tuple[str, str], str | None]) -> str:
    names = [each["property"] for each in results[0]["methods"][0]["properties"]]
    says = {each["property"]: each["says"] for each in results[0]["methods"][0]["properties"]}
    heads = [f"{result['library']} {next(iter(result['versions'].values()), '')}".strip() for result in results]
    lines = [f"| property | {' | '.join(heads)} |", f"|---|{'---|' * len(results)}"]
    for name in names:
        lines.append(f"| `{name}` | {' | '.join(cell(result, name, confirmed) for result in results)} |")
    lines += ["", "## What fails", ""]
    found = failures(results)
    for (library, name), rows in found.items():
        methods, first = ", ".join(method for method, _ in rows), rows[0][1]
        shown = confirmed.get((library, name))
        issue = ISSUES.get((library, name), "")
        confirmation = (
            f"`{SCRIPTS}/{library}_{name}.py` shows it without troth: {_plain(shown)}."
            if shown
            else "No second script confirms it yet, so it may be our adapter."
        )
        lines += [
            f"### {library}: {name}", "",
            f"{methods}. {says[name]}", "",
            f"- expected: {_plain(first['expected'])}",
            f"- came: {_plain(first['came'])}",
            f"- text: `{str(first['text'])[:60] or 'the empty text'}`",
            f"- {confirmation}",
            *([f"- {issue}"] if issue else []), "",
        ]  # fmt: skip
    lines += [] if found else ["Nothing.", ""]
    lines += ["", "## What was not judged", ""]
    for result in results:
        why: dict[str, list[str]] = {}
        for method in result["methods"]:
            for each in method["properties"]:
                if each["status"] in ("not offered", "not judged"):
                    why.setdefault(each["why"], []).append(f"`{each['property']}` ({method['method']})")
        lines += [f"- {result['library']}: {', '.join(where)}: {_plain(reason)}" for reason, where in why.items()]
        if "error" in result:
            lines.append(f"- {result['library']} does not run: {_plain(result['error'])}")
    lines += ["", "## Methods and versions", "", "| library | method | claims | explains | holds | seconds |"]
    lines.append("|---|---|---|---|---|--:|")
    for result in results:
        for method in result["methods"]:
            claims = ", ".join(method["claims"]) or "nothing"
            score = method["badge"].rpartition(" ")[2]
            lines.append(
                f"| {result['library']} | {method['method']} | {claims} | {method['of']} | {score} | "
                f"{method['seconds']:.0f} |"
            )
    lines += ["", "Environments: " + "; ".join(_versions(result) for result in results) + "."]
    return "\n".join(lines) + "\n"


def _versions(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _plain(text: str) -> str:
    """For a line of Markdown."""
    for sign in "|*_[]<>`":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())[:300].rstrip(".")


def known() -> str:
    """Bugs that users met, shown on the version that had them or shown fixed."""
    lines = [
        "## Known bugs, run again",
        "",
        "*Not shown*: fixed in the version here.",
        "",
        "| issue | library | what | outcome |",
        "|---|---|---|---|",
    ]
    for script, (library, issue, what) in KNOWN.items():
        done = run(f"confirm/{script}.py", library)
        last = (done.stdout.strip().splitlines() or [(done.stderr.strip().splitlines() or ["no output"])[-1]])[-1]
        lines.append(f"| {issue} | {library} | {what} (`{SCRIPTS}/{script}.py`) | {_plain(last)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="libraries that were run are not run again")
    given = parser.parse_args()
    stored = {library: RESULTS / f"{library}.json" for library in LIBRARIES}
    with ThreadPoolExecutor(2) as workers:
        results = list(
            workers.map(
                lambda library: (
                    json.loads(stored[library].read_text())
                    if given.again and stored[library].exists()
                    else measure(library)
                ),
                LIBRARIES,
            )
        )
        keys = list(failures(results))
        confirmed = dict(zip(keys, workers.map(lambda key: confirm(*key), keys), strict=True))
    from page import put

    left_out = "\n".join(f"- **{library}**: {why}" for library, why in NOT_HERE.items())
    body = f"{page(results, confirmed)}\n{known()}\n## Not in the table\n\n{left_out}\n"
    put(PAGE, MARKS, body)
    for key in keys:
        print(f"{'✗' if confirmed[key] else '?'} {key[0]} {key[1]}: {confirmed[key] or 'not confirmed'}")


if __name__ == "__main__":
    main()
