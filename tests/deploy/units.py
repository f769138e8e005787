"""systemd units as sections of lists: a key may occur more than once, which configparser does not allow."""

from __future__ import annotations

from pathlib import Path


def read_unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Read a unit; every other line than a section, a setting, a comment or nothing is an error."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in filter(None, map(str.strip, path.read_text().splitlines())):
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals and key.isalnum(), f"{path.name}: {line}"
            section.setdefault(key, []).append(value)
    return sections
