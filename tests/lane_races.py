"""Finds races between the lanes of a block: every pair of accesses that no barrier keeps apart, whatever comes of it.

Kernels are compiled for a CPU with the calls that a thread sanitizer makes at each access, and linked to
``lane_races.cpp``, which takes these calls. Import it before anything that loads kernels.
"""

import ctypes
import itertools
import re
import subprocess
import sys
from pathlib import Path

import warp as wp
from warp._src import context

RUNTIME = Path(__file__).with_suffix(".cpp")


class Races:
    """What stands in for Warp's linker, and what has been found in the modules that it has linked."""

    def __init__(self, folder: Path):
        self._folder, self._linked = folder, {}
        self._number = itertools.count()  # modules are loaded by several threads
        self._llvm = context.runtime.llvm
        self._runtime = folder / "liblane_races.so"
        _compile("-O2", "-fPIC", RUNTIME, output=self._runtime)
        self._found = ctypes.CDLL(str(self._runtime), mode=ctypes.RTLD_GLOBAL)
        self._found.watch(ctypes.c_void_p(context.runtime.core.wp_cpu_block_runtime_get_api()))
        context.runtime.llvm = self

    def __getattr__(self, name):
        return getattr(self._llvm, name)

    def wp_load_obj(self, path, handle, legacy):
        """Link an object file and load it."""
        library = self._folder / f"{next(self._number)}.so"
        _compile(path.decode(), self._runtime, "-lm", "-Wl,-Bsymbolic", output=library)
        self._linked[handle] = ctypes.CDLL(str(library))
        return 0

    def wp_lookup(self, handle, name):
        """Address of a kernel."""
        return ctypes.cast(getattr(self._linked[handle], name.decode()), ctypes.c_void_p).value

    def wp_unload_obj(self, handle):
        """Keep it: what was found there is still to be told."""

    def uneven_blocks(self) -> int:
        """How many blocks had lanes that met at different numbers of barriers."""
        return self._found.uneven_blocks()

    def found(self, package: Path) -> list[tuple[str, str]]:
        """Pairs of places in a package, as file:line: text, that touched the same word of an array, atomic operations apart."""
        before, after, at = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        races, known = [], _mappings()
        while self._found.next_race(ctypes.byref(before), ctypes.byref(after), ctypes.byref(at)):
            if not any(start <= at.value < end for start, end, *_ in known):  # what Warp itself keeps for a block
                races.append((before.value, after.value))
        places = _places({code for race in races for code in race}, known, package)
        return sorted({(places[a], places[b]) for a, b in races if places[a] and places[b]})


def watch(folder: Path) -> Races:
    """Compile what comes for finding races, in a folder of its own."""
    wp.config.kernel_cache_dir = str(folder / "cache")
    wp.config.cpu_compiler_flags = (
        "-fsanitize=thread -debug-info-kind=line-tables-only -mrelocation-model pic -pic-level 2"
    )
    wp.config.use_precompiled_headers = False
    wp.config.lineinfo = True  # and with it the lines of Python
    wp.init()
    return Races(folder)


def _compile(*arguments, output: Path) -> None:
    subprocess.run(["g++", "-shared", "-o", output, *arguments], check=True, stdout=sys.stderr)


def _mappings() -> list[tuple[int, int, int, str]]:
    """Where libraries and the main stack lie: from, to, offset in the file, and its name."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        where, _, offset, *rest = line.split(maxsplit=5)
        if rest[-1].endswith(".so") or "[stack]" in line:
            start, end = (int(x, 16) for x in where.split("-"))
            found.append((start, end, int(offset, 16), rest[-1]))
    return found


def _places(codes: set[int], mappings, package: Path) -> dict[int, str]:
    """Where some instructions come from; empty for atomic operations, for what starts a lane, and what is of no kernel of the package."""
    places = dict.fromkeys(codes, "")
    for path in {path for *_, path in mappings}:
        own = [m for m in mappings if m[3] == path]
        here = sorted(code for code in codes if any(start <= code < end for start, end, *_ in own))
        if here:
            base = min(start - offset for start, _, offset, _ in own)
            # One byte back: into the call, rather than to what comes after it.
            command = ["addr2line", "-a", "-f", "-i", "-C", "-e", path, *(hex(code - 1 - base) for code in here)]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for code, frames in zip(here, re.split(r"^0x.*\n", told, flags=re.MULTILINE)[1:], strict=True):
                places[code] = _place(frames.splitlines(), package)
    return places


def _place(frames: list[str], package: Path) -> str:
    """The innermost line of the package among functions and their places, from the innermost on."""
    if any("atomic_" in function for function in frames[::2]) or "_thunk_" in frames[0]:
        return ""
    lines = (place.split(" (")[0].rpartition(":") for place in frames[1::2])
    for path, _, line in lines:
        if Path(path).is_relative_to(package) and line.isdigit():
            text = (
                Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1 : int(line)]
            )  # none of C in a kernel
            return f"{Path(path).relative_to(package)}:{line}: {''.join(text).strip()}"
    return ""
