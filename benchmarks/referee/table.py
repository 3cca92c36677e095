"""Runs the referee on every library, each in its own environment, and writes docs/reference/referee.md.

    python benchmarks/install.py            # once: the environments
    python benchmarks/referee/table.py      # some minutes on two cores

A library fails a property (✗) only if a script that does not use troth shows the same (confirm/). A failure without
such a script is shown as ?, since our adapter may be at fault.
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

LIBRARIES = (
    "captum", "shap", "lime", "ferret", "interpreto", "transformers_interpret", "solvex", "shapiq", "inseq",
    "context_cite", "troth",
)  # fmt: skip
RESULTS = ROOT / "build" / "referee"
PAGE = ROOT / "docs" / "reference" / "referee.md"
MARKS = ("<!-- referee: written by benchmarks/referee/table.py -->", "<!-- /referee -->")
SCRIPTS = "benchmarks/referee/confirm"
CORE = ("class_asked_about", "same_length_batch", "padded_right", "padded_left", "completeness", "shapley_values")


def run(script: str, library: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    command = [str(python_of(library)), str(HERE / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


def measure(library: str) -> dict[str, Any]:
    """The referee's results for a library, or the reason why it does not run."""
    done = run("run.py", library, library)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
        return {"library": library, "versions": {}, "methods": [], "error": reason}
    result: dict[str, Any] = json.loads(done.stdout)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{library}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False))
    return result


def confirm(library: str, name: str) -> str | None:
    """What the confirming script of a failure prints; None if there is no script, or if it shows nothing."""
    script = HERE / "confirm" / f"{library}_{name}.py"
    if not script.exists():
        return None
    done = run(f"confirm/{script.name}", library)
    return done.stdout.strip().splitlines()[-1].removeprefix("shown: ") if done.returncode == 0 else None


def failures(results: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[str, dict[str, Any]]]]:
    """The methods that fail, with their results, by library and property."""
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


LEGEND = """
**✓** The property holds for every method of the library to which it applies. **✗** It fails for at least one method;
the link leads to the details and to a script that shows the failure without troth. **–** The property does not apply;
the reasons are [below](#what-was-not-checked). **?** The property fails, but no independent script confirms it, so our
adapter may be at fault.
"""


def conclusion(cells: dict[tuple[str, str], str], methods: int) -> str:
    """How many libraries fail what, in a few sentences. cells: the sign by library and property"""
    libraries, names = (list(dict.fromkeys(key[place] for key in cells)) for place in (0, 1))
    fails = {key for key, sign in cells.items() if sign not in "✓–"}
    by_name = {name: sum((library, name) in fails for library in libraries) for name in names}
    often = sorted((name for name in names if by_name[name] > 1), key=lambda name: -by_name[name])
    clean = [library for library in libraries if not any(library == failed for failed, _ in fails)]
    applied = sum(sign != "–" for sign in cells.values())
    lines = [
        f"**{len(libraries)} libraries, {methods} methods, {len(names)} properties.** Of the {applied} pairs of a "
        f"library and a property that applies to it, {applied - len(fails)} hold and {len(fails)} fail. These "
        "properties fail in more than one library: "
        + ", ".join(f"`{name}` ({by_name[name]})" for name in often)
        + f". {sum(not count for count in by_name.values())} properties fail in no library, among them "
        + ", ".join(f"`{name}`" for name in CORE if name in by_name and not by_name[name])
        + ". "
        + (f"No failures: {', '.join(clean)}." if clean else "Every library fails at least one property.")
    ]
    return "\n".join(lines)


def page(results: list[dict[str, Any]], confirmed: dict[tuple[str, str], str | None]) -> str:
    rows_of = {each["property"]: each for each in results[0]["methods"][0]["properties"]}
    heads = [f"{result['library']} {next(iter(result['versions'].values()), '')}".strip() for result in results]
    cells = {(result["library"], name): cell(result, name, confirmed) for name in rows_of for result in results}
    lines = [conclusion(cells, sum(len(result["methods"]) for result in results)), LEGEND]
    lines += [f"| property | {' | '.join(heads)} |", f"|---|{'---|' * len(results)}"]
    for name in rows_of:
        lines.append(f"| `{name}` | {' | '.join(cells[result['library'], name] for result in results)} |")
    lines += ["", "## The properties", "", "| property | what must hold |", "|---|---|"]
    lines += [f"| `{name}` | {row['says']} |" for name, row in rows_of.items()]
    lines += ["", "## What fails", ""]
    found = failures(results)
    for (library, name), rows in found.items():
        methods, first = ", ".join(method for method, _ in rows), rows[0][1]
        shown = confirmed.get((library, name))
        issue = ISSUES.get((library, name), "")
        confirmation = (
            f"without troth: `{SCRIPTS}/{library}_{name}.py` prints: {_plain(shown)}"
            if shown
            else "No independent script confirms it, so our adapter may be at fault."
        )
        lines += [
            f"### {library}: {name}", "",
            f"{first['says']} This fails for {methods}.", "",
            f"- expected: {_plain(first['expected'])}",
            f"- got: {_plain(first['got'])}",
            f"- text: `{str(first['text'])[:60] or 'the empty text'}`",
            f"- {confirmation}",
            *([f"- {issue}"] if issue else []), "",
        ]  # fmt: skip
    lines += [] if found else ["Nothing.", ""]
    lines += [
        "## What was not checked",
        "",
        "Each line gives the reason why some properties were "
        "not checked. Properties that a method does not claim are not listed.",
        "",
    ]
    for result in results:
        why: dict[str, list[str]] = {}
        for method in result["methods"]:
            for each in method["properties"]:
                if each["status"] in ("not supported", "not judged"):
                    why.setdefault(each["why"], []).append(f"`{each['property']}` ({method['method']})")
        lines += [f"- {result['library']}: {', '.join(where)}: {_plain(reason)}" for reason, where in why.items()]
        if "error" in result:
            lines.append(f"- {result['library']} does not run: {_plain(result['error'])}")
    lines += ["", "## Methods and versions", "", "| library | method | claims | explains | properties held | seconds |"]
    lines.append("|---|---|---|---|---|--:|")
    for result in results:
        for method in result["methods"]:
            claims = ", ".join(method["claims"]) or "nothing"
            score = method["badge"].rpartition(" ")[2]
            lines.append(
                f"| {result['library']} | {method['method']} | {claims} | {method['of']} | {score} | "
                f"{method['seconds']:.0f} |"
            )
    lines += ["", "Versions: " + "; ".join(_versions(result) for result in results) + "."]
    return "\n".join(lines) + "\n"


def _versions(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _plain(text: str) -> str:
    """For a line of Markdown."""
    for sign in "|*_[]<>`":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())[:300].rstrip(".")


def known() -> str:
    """Bugs that users reported, run on a version that had them and on the newest."""
    lines = [
        "## Known bugs, run again",
        "",
        "Bugs that users reported earlier. *Shown*: the version has the bug. *Not shown*: the script does not find it "
        "in this version.",
        "",
        "| issue | version | bug | outcome |",
        "|---|---|---|---|",
    ]
    for script, (environments, package, issue, what) in KNOWN.items():
        for environment in environments:
            done = run(f"confirm/{script}.py", environment)
            last = (done.stdout.strip().splitlines() or [(done.stderr.strip().splitlines() or ["no output"])[-1]])[-1]
            ask = f"from importlib.metadata import version; print(version({package!r}))"
            version = subprocess.run(
                [str(python_of(environment)), "-c", ask], capture_output=True, text=True, check=False
            )
            lines.append(
                f"| {issue} | {package} {version.stdout.strip()} | {what} (`{SCRIPTS}/{script}.py`) | {_plain(last)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="use the stored results of libraries that were run before")
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
