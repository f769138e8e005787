"""The Dockerfile's steps, done without Docker: its stages in a folder, its Python in a fresh venv.

    python -m tests.deploy.replay FOLDER [ENTRYPOINT ARGUMENTS ...]

What differs from a build: the base image is this machine with the Python that runs this, absolute folders lie below
FOLDER, nothing is compiled to bytecode, and what needs root (``useradd``, ``chown``) is noted, not done. A stage is
moved aside when it ends, so that the next has only what it copies; the build stage is gone before the entrypoint runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.deploy.dockerfile import REPOSITORY, Context, Stage, read_dockerfile

OURS = re.compile(r"(?<![\w.:/-])/(?=(?:src|wheels|opt/svmsieve|data|certs|var/cache/svmsieve)\b)")
NEEDS_ROOT = ("useradd", "chown")


class Replay:
    """The steps of the Dockerfile below ``folder``: ``image`` is what the last stage left."""

    def __init__(self, folder: Path) -> None:
        self.image, self.notes = folder / "image", folder / "needs-root.txt"
        self._stages, self._tools = folder / "stages", folder / "tools"
        self._tools.mkdir(parents=True)
        self._tool("python", f'exec "{sys.executable}" "$@"')
        self._tool("pip", f'exec "{sys.executable}" -m pip "$@"')
        for name in NEEDS_ROOT:
            self._tool(name, f'echo {name} "$@" >> "{self.notes}"')
        bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        no_bytecode = {"PIP_NO_COMPILE": "false"}  # false is how pip's variable says that there is to be none
        self._machine = bare | no_bytecode | {"PATH": f"{self._tools}:{os.environ['PATH']}"}

    def build(self) -> None:
        """Do all stages."""
        self._stages.mkdir()
        *before, self.final = read_dockerfile()
        for stage in before:
            self._do(stage)
            self.image.rename(self._stages / stage.name)
        self._do(self.final)
        shutil.rmtree(self._stages)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the entrypoint as a container would: in its working folder, with its variables and no others."""
        environment = {k: self._here(v) for k, v in self.final.environment({"PATH": "/usr/bin:/bin"}).items()}
        program, *words = json.loads(self.final.last("ENTRYPOINT"))
        found = shutil.which(program, path=environment["PATH"])
        assert found and Path(found).is_relative_to(self.image), f"{program} is not in the image"
        command = [found, *words, *(arguments or json.loads(self.final.last("CMD")))]
        work = self._here(self.final.last("WORKDIR"))
        return subprocess.run(command, env=environment, cwd=work, text=True, capture_output=True, check=False)

    def _here(self, text: str) -> str:
        """Move the image's folders below ours."""
        return OURS.sub(f"{self.image}/", text)

    def _do(self, stage: Stage) -> None:
        work = self.image
        work.mkdir()
        environment = {k: self._here(v) for k, v in stage.environment(self._machine).items()}
        for keyword, value in stage.steps:
            if keyword == "WORKDIR":
                work = Path(self._here(value))
                work.mkdir(parents=True, exist_ok=True)
            elif keyword == "COPY":
                self._copy(value, work)
            elif keyword == "RUN":
                command = ["sh", "-euc", self._here(value)]
                subprocess.run(command, cwd=work, env=environment, check=True, stdin=subprocess.DEVNULL)
            else:
                assert keyword in ("ENV", "ARG", "USER", "ENTRYPOINT", "CMD"), f"{keyword} is not replayed"

    def _copy(self, value: str, work: Path) -> None:
        *sources, target = value.split()
        into = work / self._here(target)
        context = Context()
        if sources[0].startswith("--from="):
            stage = self._stages / sources.pop(0).removeprefix("--from=")
            for source in sources:
                shutil.copytree(stage / source.lstrip("/"), into, symlinks=True, copy_function=os.link)  # it goes soon
            return
        for source in map(Path, sources):
            assert context.holds(source), f".dockerignore keeps {source} out"
            if (REPOSITORY / source).is_dir():
                shutil.copytree(REPOSITORY / source, into, ignore=context.ignored)
            else:
                shutil.copy2(REPOSITORY / source, into)

    def _tool(self, name: str, line: str) -> None:
        tool = self._tools / name
        tool.write_text(f"#!/bin/sh\n{line}\n")
        tool.chmod(0o755)


def main() -> None:
    """Replay the Dockerfile and run its entrypoint."""
    replay = Replay(Path(sys.argv[1]).resolve())
    replay.build()
    result = replay.run(*sys.argv[2:])
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
