"""Launching kernels over all trees, or all solve groups, part by part, by one CPU thread or several.

Groups have nothing in common, so the stages of a step may follow each other in one part of them before the next part
begins, and threads may share the parts: the bits stay the same. What a part needs stays in the cache from stage to stage.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import warp as wp

from ..linalg.lanes import block_dim
from ..workspace import Tree, copy_bundle
from .scratch import Scratch, parts_of_threads

if TYPE_CHECKING:
    from ..boundary.topology import Topology

KEPT = 4
"""How many ways to launch a kernel are remembered, and how many sets of a caller's arrays: programs step to and fro between
a few states."""


def keep_latest(known: dict, key, value) -> None:
    """Put a value at the end, and let the one go that was not asked for longest."""
    if len(known) >= KEPT:
        del known[next(iter(known))]
    known[key] = value


def load_kernels(kernels, device) -> None:
    """Compile kernels that are not in Warp's cache, a few at a time: by as many threads as ``wp.config.load_module_max_workers``
    says, by one per core that this process may use and up to four where that is 0."""
    threads = wp.config.load_module_max_workers or min(4, _usable_cores())
    has_blocks = wp.get_device(device).is_cuda or wp.config.enable_cpu_blocks
    # The largest, which end a step, begin.
    sizes = {kernel.module: block_dim(kernel) if has_blocks else 1 for kernel in reversed(kernels)}
    for size in dict.fromkeys(sizes.values()):
        modules = [module for module, its in sizes.items() if its == size]
        wp.force_load(device, modules, block_dim=size, max_workers=threads)


def _usable_cores() -> int:
    """Two compilers that share a core take a quarter longer than one after the other."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Recorded:
    """Launches by kernel and count, with the arguments they were prepared for: on a CPU preparing is most of what a launch
    costs."""

    def __init__(self, device):
        self._device = device
        self._known = {}

    def prepare(self, launch: Callable, kernel, count: int, inputs: list) -> wp.Launch:
        """Return what ``launch``, one of Warp's functions, would launch."""
        known = self._known.setdefault((kernel, count), [])
        for command, before in known:
            if all(map(operator.is_, inputs, before)):
                return command
        how = {"block_dim": block_dim(kernel), "device": self._device}
        command = launch(kernel, dim=[count], inputs=inputs, record_cmd=True, **how)
        known.append((command, inputs))
        del known[:-KEPT]
        return command


@dataclass
class Part:
    """A range of groups and their trees: ``tree`` says where it begins."""

    tree: Tree
    tree_count: int
    group_count: int
    recorded: Recorded
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Launches that are still to be made, in order."""


class Launches:
    """Launches what a step consists of. Inside ``with launches:`` parts wait for what all of them need, or for the end."""

    borrows_arrays = True
    """As arguments of launches that it remembers."""

    def __init__(self, tree: Tree, topology: Topology, scratch: Scratch, threads: int, device):
        self.device = device
        groups = topology.group_count if topology.dof_count else 0  # without dofs there is nothing to solve
        self._whole = Part(tree, topology.tree_count, groups, Recorded(device))
        self._parts = [self._whole]
        parts = len(topology.part_start) - 1
        if parts > 1:
            self._parts = [self._part(topology, part) for part in range(parts)]
        threads = min(threads, len(self._parts))
        self._threads = [ThreadPoolExecutor(1, "newton_sap") for _ in range(threads)] if threads > 1 else []
        self._ahead = False
        self._scratch = scratch
        self._unbroken = False

    def single(self, kernel, count: int, inputs: list) -> None:
        """Launch a kernel that parts do not share, after all that waits."""
        self.wait()
        self.at_once(kernel, count, inputs)

    def at_once(self, kernel, count: int, inputs: list) -> None:
        """Launch a kernel that parts do not share, before all that waits."""
        if count:
            self._launcher(self._whole, wp.launch, kernel, count, inputs)()

    def items(self, kernel, count: int, inputs: list) -> None:
        """Launch a kernel that loops over so many items; its last argument is how many threads share them."""
        self.wait()
        self.items_at_once(kernel, count, inputs)

    def items_at_once(self, kernel, count: int, inputs: list) -> None:
        """The same before all that waits."""
        threads = self._sharers(count)
        self.at_once(kernel, threads, [*inputs, threads])

    def part_items(self, kernel, count: int, inputs: list) -> None:
        """The same in each part; the kernel's first argument, the tree bundle, says which one."""
        threads = self._sharers(count)
        self._share(wp.launch, kernel, lambda part: threads, [*inputs, threads])

    def parts(self, kernel, inputs: list) -> None:
        """Launch one block per part, with the same first argument."""
        self._share(wp.launch_tiled, kernel, lambda part: 1, inputs)

    def trees(self, kernel, inputs: list) -> None:
        """Launch one thread per tree, with the same first argument."""
        self._share(wp.launch, kernel, operator.attrgetter("tree_count"), inputs)

    def groups(self, kernel, inputs: list) -> None:
        """Launch one block per group, with the same first argument."""
        self._share(wp.launch_tiled, kernel, operator.attrgetter("group_count"), inputs)

    def clusters(self, kernel, inputs: list) -> None:
        """Launch blocks for clusters (``minimizer.ranges.entries_of``), with the same first argument."""
        count = "group_count" if self.device.is_cpu else "tree_count"
        self._share(wp.launch_tiled, kernel, operator.attrgetter(count), inputs)

    def wait(self) -> None:
        """Launch what waits; a graph is recorded, and replayed, by one thread. Raises what went wrong in others."""
        if self._unbroken:
            raise RuntimeError("parts cannot wait for each other while the place of their scratch is in use")
        try:
            if not self._threads or self.device.is_capturing:
                _run_all(self._parts)
            else:
                self._run_by_threads()
        finally:
            for part in self._parts:
                part.waiting.clear()  # also what comes after a failure: it is not for the next step

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """Stages between which no part may wait for others: the next part's scratch takes the place of this one's. To be opened
        inside ``with launches:``."""
        self._unbroken = self._scratch.is_shared
        try:
            yield
        finally:
            self._unbroken = False

    def __enter__(self):
        self._ahead = True

    def __exit__(self, *_):
        self._ahead = False
        self.wait()

    def _run_by_threads(self) -> None:
        shares = parts_of_threads(len(self._parts), len(self._threads))
        pending = [
            thread.submit(_run_all, [self._parts[i] for i in share])
            for thread, share in zip(self._threads, shares, strict=True)
        ]
        for future in pending:
            future.exception()  # waits, and raises nothing
        for future in pending:
            future.result()

    def _sharers(self, count: int) -> int:
        """CPU kernels run on one thread; a grid would only repeat the loop's bookkeeping."""
        return 1 if self.device.is_cpu else min(max(count, 1), 65536)

    def _share(self, launch: Callable, kernel, count_of: Callable[[Part], int], inputs: list) -> None:
        """Let a kernel wait for its turn in each part; with one part there is nothing to wait for."""
        for part in self._parts:
            count = count_of(part)
            if count:
                own = self._scratch.own(inputs, part.tree.part)
                part.waiting.append(self._launcher(part, launch, kernel, count, [part.tree, *own]))
        if not self._ahead or len(self._parts) == 1:
            self.wait()

    def _launcher(self, part: Part, launch: Callable, kernel, count: int, inputs: list) -> Callable[[], None]:
        """Return what makes a launch; it has no adjoint, since ``gradients/`` has its own launches."""
        if self.device.is_capturing or not self.device.is_cpu:
            how = {"block_dim": block_dim(kernel), "device": self.device, "record_tape": False}
            return partial(launch, kernel, dim=[count], inputs=inputs, **how)
        return part.recorded.prepare(launch, kernel, count, inputs).launch

    def _part(self, topology: Topology, part: int) -> Part:
        """Return a part of the groups."""
        start, end = topology.part_start[part : part + 2].tolist()
        first, last = topology.arrays["group_tree_start"][[start, end]].tolist()
        its = {"first_group": start, "first_tree": first, "part": part, "part_groups": end - start}
        own = copy_bundle(Tree, self._whole.tree, its)
        return Part(own, last - first, end - start, Recorded(self.device))


def _run_all(parts: list[Part]) -> None:
    for part in parts:
        for launch in part.waiting:
            launch()
