"""Compiled kernels: the cache notices every change that matters, and a long wait is announced, once, to who listens."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import ModuleType

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import compiling, linking, machine_code
from pipeline.data.shards import digest
from pipeline.data.shards.rows import Rows
from pipeline.errors import MissingError, SpecError
from pipeline.events import Note, announce, listening
from pipeline.jit import kernel, types_in_writing
from pipeline.kernel_stamp import Compilable, stamp_of
from pipeline.maths import csr
from tests.forked import Server

HELPER = """
from pipeline.jit import inline
{above}
@inline
def changed(x):
    return x + {term}
"""
KERNEL = """
from helper import changed
from numbers_apart import FACTOR
from pipeline.compiling import known_as
from pipeline.jit import inline, kernel

@kernel
def run(x):
    return FACTOR * below(x)

@inline
def below(x):
    return changed(x)

print(run(1), known_as.cache_info().currsize)
"""


CALLING = """
from numbers_apart import FACTOR
from pipeline.compiling import known_as
from pipeline.jit import kernel

@kernel
def called(x):
    return x + 1

@kernel
def calling(x):
    return FACTOR * called(x)

print(called(1), known_as.cache_info().currsize, calling(1), known_as.cache_info().currsize)
"""


def compile_one():
    """Have the compiler loaded, which takes a second of each process that starts without it."""
    add = numba.njit(lambda x: x + 1)
    add(1)


def import_program(folder):
    """Import the kernel's program there, where nothing of it is known, and keep what it says."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    os.environ["NUMBA_CACHE_DIR"] = f"{folder}/cache"
    said = (Path(folder) / "said").open("wb")
    for ours in (1, 2):
        os.dup2(said.fileno(), ours)
    importlib.import_module("program")
    sys.stdout.flush()
    sys.exit(0)


@pytest.fixture(scope="module")
def compiler():
    running = Server(compile_one)
    yield running
    running.close()


@pytest.fixture
def ran(tmp_path, compiler):
    """Run a kernel of these sources in a process of its own: its result, and how many functions had to be compiled."""

    def run(term=1, factor=1, above="", program=KERNEL):
        helper, numbers = HELPER.format(term=term, above=above), f"FACTOR = {factor}\n"
        for name, text in (("helper.py", helper), ("numbers_apart.py", numbers), ("program.py", program)):
            if not (tmp_path / name).exists() or (tmp_path / name).read_text() != text:  # Numba looks at its date
                (tmp_path / name).write_text(text)
        compiler.start(import_program, str(tmp_path))
        left, said = compiler.left(), (tmp_path / "said").read_text()
        assert left == 0, said
        return tuple(int(word) for word in said.split())

    return run


def test_the_cache_notices_a_helper_of_another_file_that_changed(ran):
    assert ran(term=1) == (2, 3)
    assert ran(term=1) == (2, 0)
    assert ran(term=2) == (3, 3)
    assert ran(term=2) == (3, 0)


def test_the_cache_notices_a_number_of_another_file_that_changed(ran):
    assert ran(factor=1) == (2, 3)
    assert ran(factor=5) == (10, 3)


def test_the_cache_keeps_what_a_remark_in_a_helper_does_not_change(ran):
    assert ran() == (2, 3)
    assert ran(above="# a remark, and the helper a few lines further down\n\n") == (2, 0)


def test_a_kernel_from_the_cache_can_be_called_by_one_that_is_compiled_now(ran):
    assert ran(factor=1, program=CALLING) == (2, 1, 2, 2)
    assert ran(factor=5, program=CALLING) == (2, 0, 10, 2)
    assert ran(factor=5, program=CALLING) == (2, 0, 10, 0)


def test_what_another_process_compiles_is_waited_for(ran, tmp_path, compiler):
    assert ran() == (2, 3)
    (kept,) = (tmp_path / "cache").glob("*.kernel")
    content = kept.read_bytes()
    kept.unlink()
    with compiling._alone(CodeFileAt(kept)):
        compiler.start(import_program, str(tmp_path))
        assert not compiler.ended(0.3)
        kept.write_bytes(content)
    assert compiler.left() == 0
    assert (tmp_path / "said").read_text().split() == ["2", "0"]


def test_a_process_that_does_not_end_is_not_waited_for(ran, tmp_path, compiler):
    assert ran(term=1) == (2, 3)
    (kept,) = (tmp_path / "cache").glob("*.kernel")
    begun = time.monotonic()
    with compiling._alone(CodeFileAt(kept)):
        compiler.start(hold_as_well, str(kept))
        assert compiler.left() == 0
    assert time.monotonic() - begun > 0.2


class CodeFileAt:
    """As much of a ``CodeFile`` as its lock needs."""

    def __init__(self, kept):
        self.folder, self.name = Path(kept).parent, Path(kept).name


def hold_as_well(kept):
    """Compile a kernel that another process compiles, and is not done with."""
    compiling.SECONDS_FOR_OTHERS = 0.2
    with compiling._alone(CodeFileAt(kept)):
        sys.exit(0)


DAMAGE = {
    "cut short": lambda content: content[: len(content) // 2],
    "a bit of the code": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "a name": lambda content: content.replace(b"NumbaEnv", b"numbaEnv", 1),
    "empty": lambda content: b"",
    "no hash": lambda content: content[content.index(b"\n") + 1 :],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_machine_code_is_compiled_again(ran, tmp_path, damage):
    assert ran() == (2, 3)
    (kept,) = (tmp_path / "cache").glob("*.kernel")
    assert kept.stat().st_mode & 0o444 == 0o444  # an image is made by one user, and used by another
    kept.write_bytes(DAMAGE[damage](kept.read_bytes()))
    assert ran() == (2, 3)
    assert ran() == (2, 0)


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_no_damage_is_linked(kept_code, at, bit, cut):
    kept, content = kept_code
    place = int(at * len(content))
    changed = content[:place] if cut else content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]
    (kept.folder / kept.name).write_bytes(changed)
    assert kept.load() is None
    (kept.folder / kept.name).write_bytes(content)
    assert kept.load()(np.arange(3.0)) == 3.0


@pytest.fixture(scope="module")
def kept_code(tmp_path_factory):
    """Machine code on disk, and what the file has."""

    @kernel
    def total(numbers):
        return numbers.sum()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        kept = machine_code.CodeFile(total.function, stamp_of(total), types_in_writing((np.arange(3.0),)))
        assert total(np.arange(3.0)) == 3.0
        yield kept, (kept.folder / kept.name).read_bytes()


MOVED = {
    "a release that was not tested": "linking.TESTED = ((0, 1), (0, 2))",
    "no version": "linking.numba_version = lambda: ''",
    "an extension module": "linking._PREFIXES = {'core.elsewhere': 'NRT_'}",
    "a dictionary": "linking._runtime = lambda: {'_helperlib': object()}",
    "a function": "linking._runtime = dict",
}


@pytest.mark.parametrize("moved", MOVED)
def test_where_code_cannot_be_linked_numba_keeps_it(ran, moved):
    program = f"from pipeline import linking\n{MOVED[moved]}\n{KERNEL}"
    assert ran(program=program) == (2, 2)  # two helpers, and a kernel that Numba knows otherwise
    assert ran(program=program) == (2, 0)
    if moved == "no version":
        assert ran(program=program, term=2) == (3, 2)
        assert ran(program=program, term=2) == (3, 0)


@pytest.mark.parametrize("what", ["*.nbi", "*.nbc"])
def test_what_numba_keeps_may_be_damaged(ran, tmp_path, what):
    program = f"from pipeline import linking\n{MOVED['no version']}\n{KERNEL}"
    assert ran(program=program) == (2, 2)
    (kept,) = (tmp_path / "cache").rglob(what)
    kept.write_bytes(kept.read_bytes()[:-100])
    assert ran(program=program) == (2, 3)
    assert ran(program=program) == (2, 2)
    assert ran(program=program) == (2, 0)


ONLY_WHERE_NUMBA_IS = """
import ctypes
import sys
import pipeline.jit
from pipeline import compiling
from pipeline.jit import kernel

if "known" in sys.argv:
    import llvmlite.binding as llvm
    llvm.add_symbol("only_here", ctypes.cast(ctypes.CDLL("libm.so.6").cos, ctypes.c_void_p).value)
    from numba import types
    only_here = types.ExternalFunction("only_here", types.float64(types.float64))
else:
    only_here = None
    compiling.compiled = lambda kernel, arguments, kept, linkable: lambda x: f"by Numba: {not linkable}"

pipeline.jit.stamp_of = lambda kernel: "same"

@kernel
def run(x):
    return only_here(x)

print(run(0.0))
"""


def test_code_that_needs_what_only_numba_brings_is_left_to_it(tmp_path):
    """As that with Intel's vector functions does: LLVM would end the process."""
    (tmp_path / "program.py").write_text(ONLY_WHERE_NUMBA_IS)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}
    for arguments, said in ((["known"], "1.0"), ([], "by Numba: True")):
        command = [sys.executable, "program.py", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[0] == said


def test_code_is_linked_with_the_numba_that_is_installed():
    """If not: see what became of the private parts in ``linking``, and say there that it was tested."""
    assert linking.linker() is not None


def test_no_compiler_is_one_line(fresh, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", 1)
        with pytest.raises(SpecError, match=r"NUMBA_DISABLE_JIT is set.*unset it"):
            some_kernel()(1, 2)
    monkeypatch.setitem(sys.modules, "pipeline.compiling", None)
    with pytest.raises(MissingError, match="pip install --upgrade numba"):
        some_kernel()(1, 2)


def test_threads_that_call_a_kernel_for_the_first_time_at_once():
    add, together = some_kernel(), Barrier(8)

    def called(number):
        together.wait()
        return add(number, 1)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(called, range(8))) == list(range(1, 9))
    assert len(add._entries) == 1


MANY = """
import numpy as np
from pipeline.jit import kernel

@kernel
def run(numbers, pair, factor, also):
    out = np.zeros(numbers.size, np.int16)
    total = 0.0
    for i in range(numbers.size):
        out[i] = i
        total += factor * numbers[i] + pair[0][i] + pair[1]
    return total, out, (also, numbers.size)

arrays = [np.arange(3.0), np.arange(3.0, dtype=np.float32), np.arange(6.0)[::2], np.arange(3)]
arrays[0].flags.writeable = False
factors, others = (2, 2.0, np.float32(2)), (1, True, 2**63)
found = [run(x, (x, 2), factor, also) for x in arrays for factor, also in zip(factors, others, strict=True)]
assert all(out.tolist() == [0, 1, 2] and size == 3 for _, out, (_, size) in found)
types = [[type(total).__name__, out.dtype.name, type(also).__name__] for total, out, (also, _) in found]
print(([total for total, _, _ in found], types, len(run._entries)))
"""


def test_kernels_from_the_cache_take_and_return_what_compiled_ones_do(tmp_path):
    """And Numba, which compiled them, is not there when they are called."""
    (tmp_path / "program.py").write_text(MANY)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}

    def said():
        command = [sys.executable, "-c", "import program, sys; print('numba' in sys.modules)"]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    first, second = said(), said()
    assert first[:-1] == second[:-1] and (first[-1], second[-1]) == ("True", "False")
    totals, types, entries = ast.literal_eval("".join(first[:-1]))
    assert totals == [15.0] * 6 + [24.0] * 3 + [15.0] * 3 and entries == 12
    assert types == [["float", "int16", also] for _ in range(4) for also in ("int", "bool", "int")]


RAISING = """
import sys
import numpy as np
from pipeline.jit import kernel

@kernel
def made(size):
    if size > 5:
        raise ValueError("too many")
    return np.zeros(size)

before = made(3).size, "numba" in sys.modules
try:
    made(6)
except ValueError as error:
    said = str(error)
import numba
print((*before, said, numba.njit(lambda size: np.ones(size))(2).size, made(4).size))
"""


def test_a_kernel_from_the_cache_raises_what_it_should_and_numba_can_be_used_beside_it(tmp_path):
    (tmp_path / "program.py").write_text(RAISING)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}
    for compiles in (True, False):
        command = [sys.executable, "-c", "import program"]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ast.literal_eval(done.stdout) == (3, compiles, "too many", 2, 4)


IMPORTING = """
import sys
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from pipeline.jit import kernel

@kernel
def made(size):
    return np.zeros(size)

def imported(seconds):
    time.sleep(seconds)
    import numba
    return numba.njit(lambda size: np.ones(size))(2).size

def called(seconds):
    time.sleep(seconds)
    return made(3).size

with ThreadPoolExecutor(2) as pool:
    done = [pool.submit(imported, float(sys.argv[1])), pool.submit(called, float(sys.argv[2]))]
print([each.result() for each in done])
"""


def test_numba_may_be_imported_while_a_kernel_is_linked(tmp_path):
    (tmp_path / "program.py").write_text(IMPORTING)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}
    for pauses in (("0", "0"), ("0", "0"), ("0", "0.1"), ("0.1", "0")):
        command = [sys.executable, "program.py", *pauses]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == "[2, 3]\n"


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), (2, 1), np.array([2])])
def test_the_stamp_tells_numbers_apart(value):
    def made(number):
        exec("def f(x):\n    return x + N", space := {"N": number})  # noqa: S102
        return stamp_of(Compilable(space["f"]))

    assert made(value) == made(value)
    others = [made(other) for other in (1, 3.0, np.float64(2), (2, 2), np.array([2, 2]))]
    assert made(value) not in others


def test_the_stamp_looks_into_modules_of_ours():
    module = ModuleType("pipeline.apart")

    def made(number):
        module.number = number
        exec("def f(x):\n    return x + module.number", space := {"module": module})  # noqa: S102
        return stamp_of(Compilable(space["f"]))

    assert made(1) == made(1) != made(2)


class Heard(list):
    """A listener that keeps what it hears."""

    def __call__(self, event):
        self.append(event)


@pytest.fixture
def fresh(monkeypatch):
    """A process that has compiled for long enough, said nothing of it, and keeps nothing on disk."""
    monkeypatch.setattr(machine_code, "folders", lambda: iter(()))
    monkeypatch.setattr(compiling._Silence, "over", False)
    monkeypatch.setattr(compiling._Silence, "seconds", compiling.SILENT_SECONDS)


def some_kernel():
    """A kernel that nobody has compiled, in memory."""

    @kernel
    def add(x, y):
        return x + y

    return add


def test_compiling_is_said_once_and_to_listeners_only(fresh, capsys):
    add, heard = some_kernel(), Heard()
    add(1, 2)  # nobody listens: it stays to be said
    with listening(heard):
        add(1.0, 2)
        add(1.0, 2.0)
    add(1j, 2)
    assert heard == [Note(compiling.ALWAYS)]
    assert capsys.readouterr() == ("", "")


def test_a_kernel_or_two_are_not_worth_a_line(fresh, monkeypatch):
    monkeypatch.setattr(compiling._Silence, "seconds", 0.0)
    add, heard = some_kernel(), Heard()
    with listening(heard):
        add(1, 2)
        assert heard == []
        spent = compiling._Silence.seconds
        assert spent > 0.0
        monkeypatch.setattr(compiling, "SILENT_SECONDS", spent)
        add(1.0, 2)
    assert heard == [Note(compiling.ALWAYS)]


def test_machine_code_is_kept_in_the_users_cache_if_there_is_one(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    beside = Path(machine_code.__file__).parent / "__pycache__"
    for variable, value, found in (("XDG_CACHE_HOME", "/x", ["/x"]), ("HOME", "/y", ["/y/.cache"]), ("HOME", "", [])):
        with monkeypatch.context() as patch:
            patch.delenv("XDG_CACHE_HOME", raising=False)
            patch.setattr("pwd.getpwuid", lambda _: (_ for _ in ()).throw(KeyError))
            patch.setenv(variable, value)
            if not value:
                patch.delenv(variable)
            assert [*machine_code.folders()] == [beside, *(Path(each, "svmsieve", "kernels") for each in found)]


def test_arrays_that_are_mapped_are_told_apart_by_what_they_hold(tmp_path):
    def mapped(numbers):
        numbers.tofile(tmp_path / numbers.dtype.name)
        return np.memmap(tmp_path / numbers.dtype.name, numbers.dtype, "r")

    @kernel
    def first(numbers):
        return numbers[0]

    assert [first(mapped(np.array([3], kind))) for kind in (np.int8, np.float64, np.float32)] == [3, 3.0, 3.0]


def test_who_stopped_listening_hears_no_more():
    heard = Heard()
    with listening(heard):
        assert announce(Note("one"))
    assert not announce(Note("two"))
    assert heard == [Note("one")]


def test_a_first_use_says_that_it_compiles_and_the_second_does_not(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "from pipeline.cli import main; main()"

    def said(out):
        command = [sys.executable, "-c", code, "ingest", "breast_cancer", "--out", out]  # three kernels: more than 1 s
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [line for line in done.stderr.splitlines() if line.startswith("compiling")]

    assert said("a") == [compiling.ONCE]
    assert said("b") == []


def test_rows_of_a_file_and_rows_made_here_are_one_type_to_a_kernel():
    indptr, indices, values = np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32), np.array([1.0, 2.0, 3.0])
    made = Rows(indptr, indices, values, np.array([1, -1], np.int8), np.ones(2), np.array([5.0**0.5, 3.0]), 2)
    read = replace(made, **{k: array.copy() for k, array in vars(made).items() if isinstance(array, np.ndarray)})
    for array in vars(read).values():
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    kernels = (csr._row_products, csr._present, csr._collect, digest._hashes)
    found = []
    for rows in (read, made):
        arrays = rows.indptr, rows.indices, rows.values
        total = csr.weighted_sum(*arrays, np.ones(2), 2)
        margins = csr.row_margins((*arrays, rows.labels), np.ones(2))
        results = [margins.tolist(), total.index.tolist(), total.value.tolist(), digest.row_hashes(rows).tolist()]
        found.append((results, [len(kernel._entries) for kernel in kernels]))
    assert found[0] == found[1]
    assert all(array.flags.writeable for array in vars(made).values() if isinstance(array, np.ndarray))
