"""Kill -9 the real command at random moments, N times a data set, continue it each time, and compare the bits.

Every time the run ends it is compared with one that nothing happened to, and another begins.

python -m tests.bench.kill_resume [--kills 50] [--seed 0] [DATA OPTION...]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline.data.ingest import IngestSpec, ingest

COMMAND = [sys.executable, "-c", "from pipeline.cli import main; main()", "path"]
SPENT = {"seconds", "passes", "peak_memory"}


def comparable(out: Path) -> dict[str, object]:
    """Return the files of a run but for what depends on the machine and on interruptions."""
    found: dict[str, object] = {}
    for path in out.rglob("*.npz"):
        found[str(path.relative_to(out))] = path.read_bytes()
    for path in (*out.rglob("steps.jsonl"), *out.rglob("run.json")):
        texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        facts = [{key: item for key, item in json.loads(text).items() if key not in SPENT} for text in texts]
        found[str(path.relative_to(out))] = facts
    return found


def make_rows(folder: Path, rows: int = 20_000, features: int = 2000, nonzeros: int = 100) -> Path:
    """Make sparse rows in several shards: too many for the working set of the smallest budget."""
    chance = random.Random(0)
    w = [chance.gauss(0, 1) for _ in range(features)]
    with (folder / "rows.svm").open("w") as stream:
        for _ in range(rows):
            index = sorted(chance.sample(range(features), nonzeros))
            value = [chance.gauss(0, 1) for _ in index]
            score = sum(w[j] * x for j, x in zip(index, value, strict=True)) + 6 * chance.gauss(0, 1)
            stream.write(
                f"{1 if score > 0 else -1} " + " ".join(f"{j + 1}:{x:.4f}" for j, x in zip(index, value, strict=True))
            )
            stream.write("\n")
    ingest([str(folder / "rows.svm")], folder / "rows", IngestSpec(rows_per_shard=rows // 6))
    return folder / "rows"


def finish(out: Path, data: str, options: list[str]) -> float:
    """Run the command to its end; return the seconds it took."""
    begun = time.monotonic()
    subprocess.run([*COMMAND, data, "--out", str(out), "-q", *options], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def kill_and_resume(folder: Path, data: str, options: list[str], kills: int, chance: random.Random) -> bool:
    """Kill so many times, print what came of it, and tell whether the models are the same."""
    finish(folder / "undisturbed", data, options)
    shutil.rmtree(folder / "undisturbed")
    seconds = finish(folder / "undisturbed", data, options)  # compiled, cached
    expected = comparable(folder / "undisturbed")
    out, killed, runs, same, steps = folder / "run", 0, 0, True, set()
    while killed < kills:
        arguments = [*COMMAND, data, "--out", str(out), "-q", *options]
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
            try:
                code = process.wait(chance.uniform(0.2, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        if code not in (0, -9):
            raise SystemExit(f"the command ended with {code}")
        killed += code == -9
        if code == -9 and (out / "steps.jsonl").exists():
            steps.add((out / "steps.jsonl").read_text().count("\n"))
        if code == 0 or killed == kills:
            if code:
                finish(out, data, options)
            runs += 1
            same = same and comparable(out) == expected
            shutil.rmtree(out)
    count = sum(name.endswith(".npz") for name in expected)
    print(
        f"{Path(data).name} {' '.join(options)}: killed {killed} times at random moments (after {len(steps)} different "
        f"numbers of steps), resumed each time, {runs} runs of {count} models: identical {'yes' if same else 'NO'}",
        flush=True,
    )
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="kill-") as name:
        jobs = [words] if words else []
        if not jobs:
            rows = str(make_rows(Path(name)))
            blocks = "--memory 284MB --workers 2 --grid 0.002,0.005,0.02,0.05,0.1 --tol 1e-3"
            jobs = [["breast_cancer", "--tol", "1e-6"], [rows, *blocks.split()]]
        chance = random.Random(options.seed)
        same = [
            kill_and_resume(Path(tempfile.mkdtemp(dir=name)), job[0], job[1:], options.kills, chance) for job in jobs
        ]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
