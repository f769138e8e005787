"""The search of a tuned run as it lies on disk: RUN/search, or a folder a gamma in it; stages of C; a run a fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.runs.directory import HEADER, SEARCH, read_item
from pipeline.runs.run import RunOf

COARSE, FINE, GAMMA = "coarse", "fine", "gamma-"  # stages of C; and of several gammas, each by its number


def searches(run: Path) -> list[Path]:
    """Return the folders of a tuned run's search, one a gamma, in the order of the gammas; [] if there are none."""
    several = [place for place in (run / SEARCH).glob(f"{GAMMA}*") if _number(place).isdigit()]
    whole = [run / SEARCH] if (run / SEARCH).is_dir() else []
    return sorted(several, key=lambda place: int(_number(place))) or whole


def search_of(run: RunOf[Any]) -> Path | None:
    """Return the folder of the search that a tuned run was chosen by: that at its gamma; None if it is gone."""
    found = searches(run.path)
    return found[0] if len(found) == 1 else next((place for place in found if _gamma(place) == run.spec.gamma), None)


def stages(search: Path) -> list[Path]:
    """Return the folders of the stages of C: the coarse ones, of several classes some at a time, then the fine ones."""
    return sorted([*search.glob(f"{COARSE}*"), *search.glob(FINE)])


def folds_of(search: Path) -> list[list[Path]]:
    """Return the run directories of each fold, or of the one hold-out, stage after stage, as far as they are begun."""
    found: dict[int, list[Path]] = {}
    for stage in stages(search):
        for place in numbered(stage):
            found.setdefault(int(place.name), []).append(place)
    return [found[k] for k in sorted(found)]


def numbered(folder: Path) -> list[Path]:
    """Return the run directories in a folder that are numbered, in order."""
    places = [place for place in folder.glob("*") if place.name.isdigit() and (place / HEADER).is_file()]
    return sorted(places, key=lambda place: int(place.name))


def _number(search: Path) -> str:
    return search.name.removeprefix(GAMMA)


def _gamma(search: Path) -> Any:
    first = next(iter(numbered(search / COARSE)), None)
    return None if first is None else read_item(first)["spec"].get("gamma")
