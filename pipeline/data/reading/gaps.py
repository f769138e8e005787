"""Text that stands for nothing in a cell, whatever the format: what Arrow's CSV reader takes for it, and a blank."""

from __future__ import annotations

NOTHING = (
    *("", " ", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NULL", "null"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
