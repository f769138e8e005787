"""``python -m tests.kills``; see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests import kills
from tests.forked import Server
from tests.kills.killer import kill_scene, warm_up
from tests.kills.scenes import SCENES


def main() -> None:
    parser = argparse.ArgumentParser(description=kills.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="in all; the commands share them evenly")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(SCENES))
    options = parser.parse_args()
    names = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="svmsieve-kills-") as name:
        scenes = [SCENES[which]() for which in names]
        each = -(-options.kills // len(scenes))
        server = Server(warm_up, name, scenes)
        try:
            kept = [kill_scene(server, scene, Path(tempfile.mkdtemp(dir=name)), each, options.seed) for scene in scenes]
        finally:
            server.close()
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
