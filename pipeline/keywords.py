"""Settings are real keywords, and a wrong one is named with the nearest there is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

from pipeline.errors import SettingError, shown

P = ParamSpec("P")
R = TypeVar("R")


def checked_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, that says in one line which keyword it does not have, and which may be meant."""
    known = list(inspect.signature(function).parameters)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                near = get_close_matches(name, known, 1, 0.5)
                cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise SettingError(f"{function.__name__} has no setting {shown(name)}; {cure}")
        return function(*args, **kwargs)

    return called
