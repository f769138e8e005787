"""Ways of changing a run that is on disk, and of hiding it: what an attacker of ``verify`` would write."""

from __future__ import annotations

import json

import numpy as np

from pipeline.engine.engine import Engine
from pipeline.runs.chain import foundation, link, sealed
from pipeline.runs.model_file import StoredModel
from pipeline.verify.verify import verify


def found(run, data, scheduler="inline", **options):
    with Engine(scheduler, 2) as engine:
        return verify(engine, run, data, **options)


def change_model(run, step, **changes):
    """Write a model again with some arrays changed by functions of them."""
    path = run / "models" / f"{step:06d}.npz"
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for name, change in changes.items():
        arrays[name] = change(arrays[name].copy())
    np.savez(path, **arrays)


def change_step(run, number, **changes):
    lines = lines_of(run)
    lines[number] |= changes
    write_lines(run, lines)


def change_header(run, **changes):
    """Change run.json and its seal."""
    path = run / "run.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | changes)))


def at(position, change):
    """Return a function that changes one entry of an array."""

    def changed(array):
        array[position] = change(array[position])
        return array

    return changed


def lines_of(run):
    return [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]


def write_lines(run, lines):
    (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def remove_step(run, number):
    """Remove a step and renumber those after it."""
    lines = lines_of(run)
    models = [run / "models" / f"{k:06d}.npz" for k in range(len(lines))]
    models[number].unlink()
    for before, after in zip(models[number:], models[number + 1 :], strict=False):
        after.rename(before)
    del lines[number]
    write_lines(run, [line | {"step": k} for k, line in enumerate(lines)])


def reseal(run):
    """Make hashes, number of steps and chain those of what is there, as one would who knows how they are made."""
    header, lines = json.loads((run / "run.json").read_text()), lines_of(run)
    chain = foundation(header)
    for k, line in enumerate(lines):
        line["model"] = StoredModel(run / "models" / f"{k:06d}.npz").digest()
        chain = line["chain"] = link(chain, line)
    write_lines(run, lines)
    change_header(run, chain=chain, n_steps=len(lines))
