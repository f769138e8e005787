"""Our ``dataclass`` makes what the standard library's makes: the same classes, written twice, are compared."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest

from pipeline.dataclass import dataclass as ours


def made(dataclass: Callable[..., Any]) -> dict[str, Any]:
    """Classes of all kinds that the package has."""

    @dataclass(frozen=True)
    class Base:
        """A base."""

        a: int
        b: str = "x"
        name: ClassVar[str] = "of all"

        @cached_property
        def twice(self) -> int:
            return 2 * self.a

    @dataclass(frozen=True)
    class Derived(Base):
        """A base and more."""

        c: list[int] = dataclasses.field(default_factory=list)
        hidden: str = dataclasses.field(default="", repr=False, compare=False)

    @dataclass
    class Changing:
        """What may change."""

        a: int
        later: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.later = self.a + 1

    @dataclass(frozen=True, kw_only=True)
    class Named:
        """All by name."""

        a: int = 1
        b: int

    @dataclass(frozen=True, eq=False, repr=False)
    class Bare:
        """As objects are."""

        a: int

    @dataclass(frozen=True)
    class Own:
        """With methods of its own."""

        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True)
    class Hashed:
        """With a hash of its own, and the usual equality."""

        a: int

        def __hash__(self) -> int:
            return 8

    return {kind.__name__: kind for kind in (Base, Derived, Changing, Named, Bare, Own, Hashed)}


def said(ask: Callable[[], Any]) -> Any:
    """What comes of a question, or what error."""
    try:
        return ask()
    except Exception as error:
        return type(error), str(error).replace(" object ", " ")


QUESTIONS: list[Callable[[dict[str, Any]], Any]] = [
    lambda k: repr(k["Base"](1)),
    lambda k: repr(k["Derived"](1, hidden="h")),
    lambda k: repr(k["Own"](1)),
    lambda k: k["Base"](1, "y") == k["Base"](1, "y"),
    lambda k: k["Base"](1) == k["Derived"](1),
    lambda k: k["Derived"](1, hidden="a") == k["Derived"](1, hidden="b"),
    lambda k: hash(k["Base"](1, "y")) == hash(k["Base"](1, "y")) == hash((1, "y")),
    lambda k: hash(k["Derived"](1)),  # a list
    lambda k: hash(k["Changing"](1)),
    lambda k: (hash(k["Own"](1)), k["Own"](1) == 3),
    lambda k: (hash(k["Hashed"](1)), k["Hashed"](1) == k["Hashed"](1), k["Hashed"](1) == k["Hashed"](2)),
    lambda k: k["Bare"](1) == k["Bare"](1),
    lambda k: (k["Derived"](1, "y", [7]).c, k["Derived"](1, c=[8]).c, k["Derived"](1, c=None).c),
    lambda k: k["Derived"](1).c is k["Derived"](1).c,
    lambda k: k["Changing"](4).later,
    lambda k: setattr(k["Base"](1), "a", 2),
    lambda k: setattr(k["Derived"](1), "new", 2),
    lambda k: delattr(k["Base"](1), "a"),
    lambda k: k["Base"](1).twice,
    lambda k: k["Base"](),
    lambda k: k["Base"](1, "y", "z"),
    lambda k: k["Base"](1, nothing=2),
    lambda k: k["Named"](1, 2),
    lambda k: repr(k["Named"](b=2)),
    lambda k: dataclasses.asdict(k["Derived"](1)),
    lambda k: repr(dataclasses.replace(k["Derived"](1, c=[7]), b="new")),
    lambda k: dataclasses.replace(k["Changing"](1), later=2),
    lambda k: [(f.name, f.type, f.init, f.kw_only) for kind in k.values() for f in dataclasses.fields(kind)],
    lambda k: [kind.__match_args__ for kind in k.values()],
    lambda k: [str(inspect.signature(kind)) for kind in (k["Base"], k["Changing"], k["Bare"])],
    lambda k: [kind.__doc__ for kind in k.values()],
    lambda k: repr(copy.copy(k["Derived"](1))),
]


@pytest.mark.parametrize("asked", range(len(QUESTIONS)))
def test_as_the_standard_librarys(asked: int) -> None:
    standard, own = (said(lambda kind=kind: QUESTIONS[asked](made(kind))) for kind in (dataclasses.dataclass, ours))
    assert str(own).replace("ours", "standard") == str(standard)


@ours(frozen=True)
class Sent:
    """What is pickled needs a place in a module."""

    a: int
    b: tuple[int, ...] = ()


def test_values_travel() -> None:
    assert pickle.loads(pickle.dumps(Sent(1, (2, 3)))) == Sent(1, (2, 3))  # noqa: S301 - our own
