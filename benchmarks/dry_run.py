"""How far the estimates of --dry-run are from what runs then take: prints the table of docs/guide/how_long.md.

    python benchmarks/dry_run.py FOLDER [NUMBER …]

Every plan is estimated, then carried out, each in a process of its own with one worker. Both are measured in seconds of
the processor, so that other work on the machine does not count. `explain` keeps no record of its time: that of starting
and loading, which the estimate excludes, is the time of explaining a single text at random without a proof.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

RUN = (
    "import sys, time\n"
    "time.perf_counter = time.monotonic = time.process_time\n"
    "from troth.cli import main\n"
    "sys.argv[0] = 'troth'\n"
    "main()\n"
)
SWEEP = """
models = ["{folder}/lstm", "{folder}/bert"]
data = ["reviews"]
limit = 12
explainers = ["gradient", "leave_one_out", "integrated_gradients(steps=10)"]
metrics = ["aopc_comprehensiveness", "comprehensiveness(masking=mask_token)", "monotonicity"]
seeds = [0, 1]
"""
PLANS = (
    "bench --limit 12",
    "bench --limit 8 -e lime(samples=300),kernel_shap(samples=300) --metrics aopc_comprehensiveness,aopc_sufficiency",
    "bench --limit 4 -e lime(samples=100) --metrics recursive_erasure(step=0.25)",
    "bench --limit 24 -e input_x_gradient,deep_lift,gradient_shap --metrics comprehensiveness(masking=zero),log_odds",
    "bench --limit 3 -e beam_search(width=4) --metrics comprehensiveness,sufficiency",
    "bench --limit 12 -e sequential_integrated_gradients(steps=5),attention --metrics soft_sufficiency,decision_flip",
    "bench --limit 10 -e leave_one_out,partition_shap(samples=100) --metrics normalized_aopc,linear_score,f_fidelity",
    "bench --limit 60 -e leave_one_out --masking delete --units token --metrics monotonicity,importance_correlation",
    "bench --limit 12 -e glob_enc,alti,decomp_x --metrics sensitivity,normalized_comprehensiveness",
    "sweep {folder}/plan.toml",
    "study gaming(examples=12) --limit 40 --only metrics",
    "study roar(epochs=2) --data reviews --limit 60 --only performance",
)
EXPLANATIONS = (
    "explain --data reviews --limit 12 -e lime,integrated_gradients",
    "explain --data reviews --limit 30 -e gradient,leave_one_out,deep_lift",
)
START = "explain --data reviews --limit 1 -e random --no-proof"
TRAININGS = (
    "train plain --data reviews --base bilstm_attention --epochs 1 --out {folder}/lstm",
    "train masked --data reviews --base scratch --epochs 1 --out {folder}/bert",
)


def troth(command: str, folder: Path) -> str:
    """What a command prints."""
    words = [word.format(folder=folder) for word in command.split()]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"troth {command}: {done.stderr}")
    return done.stdout


def measured(number: int, folder: Path) -> tuple[float, float, int, int]:
    """Seconds and passes of a plan: expected, then taken."""
    from troth.store.store import Store

    out = folder / f"run{number}"
    command = f"{PLANS[number]} --out {out} --workers 1"
    printed = troth(f"{command} --dry-run --json", folder)
    expected = json.loads(printed[printed.index("{") :])
    troth(command, folder)
    store = Store(out)
    sessions = (store.about() or {})["sessions"].values()
    cells = store.cells()
    return (
        float(expected["seconds"]), sum(session["seconds"] for session in sessions),
        int(expected["passes"]), sum(cell.forward + cell.backward for cell in cells),
    )  # fmt: skip


def explained(command: str, folder: Path) -> tuple[float, float, int]:
    """Seconds of `explain`, expected and taken, and its expected passes."""
    expected = json.loads(troth(f"{command} --dry-run --json", folder))

    def seconds(run: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        troth(run, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return float(expected["seconds"]), seconds(command) - seconds(START), int(expected["passes"])


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(SWEEP.format(folder=folder))
    for training in TRAININGS:
        if not Path(training.split()[-1].format(folder=folder)).exists():
            troth(training, folder)
    print("| plan | estimated time | actual time | ratio | estimated passes | actual passes |")
    print("|---|--:|--:|--:|--:|--:|")
    for number in map(int, sys.argv[2:] or range(len(PLANS) + len(EXPLANATIONS))):
        if number >= len(PLANS):
            command = EXPLANATIONS[number - len(PLANS)]
            seconds, taken, passes = explained(command, folder)
            print(
                f"| `{command}` | {seconds:.1f} s | {taken:.1f} s | {seconds / taken:.2f} | {passes:,} | |", flush=True
            )
            continue
        seconds, taken, passes, asked = measured(number, folder)
        command = PLANS[number].format(folder="").replace("/plan", "plan")
        print(
            f"| `{command}` | {seconds:.1f} s | {taken:.1f} s | {seconds / taken:.2f} | {passes:,} | {asked:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
