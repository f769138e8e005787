"""A Dockerfile and a .dockerignore, read."""

from __future__ import annotations

import fnmatch
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Stage:
    """What follows a FROM: (keyword, rest of the line) a step."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, keyword: str) -> str:
        """Return what the last step of that kind says."""
        return [value for word, value in self.steps if word == keyword][-1]

    def environment(self, before: dict[str, str]) -> dict[str, str]:
        """Return the variables that ENV and ARG set, on top of those ``before``."""
        known = dict(before)
        for keyword, value in self.steps:
            for word in shlex.split(value) if keyword in ("ENV", "ARG") else ():
                name, _, text = word.partition("=")
                known[name] = Template(text).safe_substitute(known)
        return known


def read_dockerfile(path: Path = REPOSITORY / "deploy" / "Dockerfile") -> list[Stage]:
    """Read the stages of a Dockerfile."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        keyword, _, value = line.strip().partition(" ")
        if keyword == "FROM":
            base, _, name = value.partition(" AS ")
            stages.append(Stage(base, name))
        elif keyword:
            stages[-1].steps.append((keyword, " ".join(value.split())))
    return stages


class Context:
    """What .dockerignore lets into the build: the last rule that matches a file or a folder above it decides."""

    def __init__(self, path: Path = REPOSITORY / ".dockerignore") -> None:
        self.rules = [rule for rule in path.read_text().splitlines() if rule and not rule.startswith("#")]

    def holds(self, path: Path) -> bool:
        """Tell whether a file, by its path in the repository, is in the context."""
        verdicts = [rule.startswith("!") for rule in self.rules if _matches(rule.removeprefix("!"), path)]
        return verdicts[-1] if verdicts else True

    def ignored(self, folder: str, names: list[str]) -> list[str]:
        """Name what is left out of a folder, as shutil.copytree asks."""
        base = Path(folder).relative_to(REPOSITORY)
        return [name for name in names if not self.holds(base / name)]


def _matches(pattern: str, path: Path) -> bool:
    """Match as Docker does: from the top, or with **/ anywhere; a folder stands for all in it."""
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatchcase(part, pattern[3:]) for part in path.parts)
    depth = len(Path(pattern).parts)
    return len(path.parts) >= depth and fnmatch.fnmatchcase("/".join(path.parts[:depth]), pattern)
