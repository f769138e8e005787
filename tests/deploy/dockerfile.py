"""A Dockerfile read as steps, and done without Docker: its stages in a folder, its Python in a fresh venv.

    python -m tests.deploy.dockerfile FOLDER [ENTRYPOINT ARGUMENTS ...]

What differs from a build: the base image is this machine with the Python that runs this, absolute folders lie below
FOLDER, and what needs root (``useradd``, ``chown``) is noted, not done. A stage is moved aside when it ends, so that the
next has only what it copies, and the build stage is gone before the entrypoint runs.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

REPOSITORY = Path(__file__).parents[2]
NEEDS_ROOT = ("useradd", "chown")
OURS = re.compile(r"(?<![\w.:/-])/(?=(?:src|wheels|opt/svmsieve|data|certs|var/cache/svmsieve)\b)")


@dataclass
class Stage:
    """What follows a FROM."""

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


def in_context(path: str, rules: list[str]) -> bool:
    """Tell whether .dockerignore lets a file in: the last rule that matches it or a folder above it decides."""
    above = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
    inside = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        forms = (pattern, pattern.removeprefix("**/"), pattern.replace("**/", "*/"))
        if any(
            fnmatch.fnmatchcase(part, form) and ("/" in form or "/" not in part) for part in above for form in forms
        ):
            inside = rule.startswith("!")
    return inside


class Replay:
    """The steps of a Dockerfile, done below a folder."""

    def __init__(self, folder: Path) -> None:
        self.root, self.aside, self.tools = folder / "image", folder / "stages", folder / "tools"
        self.noted: list[str] = []
        self.notes = folder / "needs-root.txt"
        self.tools.mkdir(parents=True)
        for name, line in (("python", f'exec {sys.executable} "$@"'), ("pip", f'exec {sys.executable} -m pip "$@"')):
            self._tool(name, line)
        for name in NEEDS_ROOT:
            self._tool(name, f'echo {name} "$@" >> {self.notes}')
        rules = (REPOSITORY / ".dockerignore").read_text().splitlines()
        self.rules = [rule for rule in rules if rule and not rule.startswith("#")]
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        self.machine = inherited | {"PATH": f"{self.tools}:{os.environ['PATH']}", "PIP_NO_COMPILE": "1"}

    def build(self) -> None:
        """Do all stages; what is left in the folder is the last one's."""
        for stage in read_dockerfile():
            if self.root.exists():
                self.root.rename(self.aside / previous.name)
            self.aside.mkdir(exist_ok=True)
            self.root.mkdir()
            self._do(stage)
            previous = stage
        self.final = previous
        shutil.rmtree(self.aside)

    def run(self, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Run the entrypoint as a container would, in its working folder with its variables and nothing else."""
        environment = self.here(self.final.environment({"PATH": "/usr/bin:/bin"}))
        command = [*json.loads(self.final.last("ENTRYPOINT")), *(arguments or json.loads(self.final.last("CMD")))]
        program = shutil.which(command[0], path=environment["PATH"])
        assert program and Path(program).is_relative_to(self.root), f"{command[0]} is not in the image"
        work = self.here({"": self.final.last("WORKDIR")})[""]
        return subprocess.run(
            [program, *command[1:]], env=environment, cwd=work, text=True, capture_output=True, check=False, **options
        )

    def here(self, values: dict[str, str]) -> dict[str, str]:
        """Move the image's folders below ours."""
        return {name: OURS.sub(f"{self.root}/", value) for name, value in values.items()}

    def _do(self, stage: Stage) -> None:
        work = self.root
        for keyword, value in stage.steps:
            said = OURS.sub(f"{self.root}/", value)
            if keyword == "WORKDIR":
                work = Path(said)
                work.mkdir(parents=True, exist_ok=True)
            elif keyword == "COPY":
                self._copy(value, work)
            elif keyword == "RUN":
                environment = self.here(stage.environment(self.machine))
                subprocess.run(["sh", "-euc", said], cwd=work, env=environment, check=True, stdin=subprocess.DEVNULL)
            else:
                assert keyword in ("ENV", "ARG", "USER", "ENTRYPOINT", "CMD"), f"{keyword} is not replayed"

    def _copy(self, value: str, work: Path) -> None:
        *sources, target = value.split()
        stage = sources.pop(0).removeprefix("--from=") if sources[0].startswith("--from=") else None
        into = work / OURS.sub(f"{self.root}/", target)
        for source in sources:
            found = self.aside / stage / source.lstrip("/") if stage else REPOSITORY / source
            to = into if found.is_dir() else into / found.name
            shutil.copytree(found, to, symlinks=True, ignore=None if stage else self._ignored) if found.is_dir() else (
                shutil.copy2(found, to)
            )
            assert stage or in_context(source, self.rules), f".dockerignore keeps {source} out"

    def _ignored(self, folder: str, names: list[str]) -> list[str]:
        base = Path(folder).relative_to(REPOSITORY)
        return [name for name in names if not in_context((base / name).as_posix(), self.rules)]

    def _tool(self, name: str, line: str) -> None:
        tool = self.tools / name
        tool.write_text(f"#!/bin/sh\n{line}\n")
        tool.chmod(0o755)


def main() -> None:
    """Replay the Dockerfile and run its entrypoint."""
    replay = Replay(Path(sys.argv[1]))
    replay.build()
    result = replay.run(*sys.argv[2:])
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
