"""Launching kernels over all trees, or all solve groups, by one CPU thread or several.

Groups have nothing in common, so each thread runs the same kernels over its own range of them, in order, and the bits are
those of one thread.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import warp as wp

from .boundary.topology import Topology
from .linalg.lanes import BLOCK_DIM
from .workspace import Tree

KEPT = 4
"""How many ways to launch a kernel are remembered, and how many sets of a caller's arrays: programs step to and fro between
a few states."""


def load_kernels(kernels, device) -> None:
    """Compile kernels that are not in Warp's cache, a few at a time: by four threads, or as Warp's configuration says."""
    threads = wp.config.load_module_max_workers or min(4, os.cpu_count() or 1)
    modules = list(dict.fromkeys(kernel.module for kernel in kernels))
    wp.force_load(device, modules, block_dim=BLOCK_DIM, max_workers=threads)


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
        command = launch(kernel, dim=[count], inputs=inputs, block_dim=BLOCK_DIM, device=self._device, record_cmd=True)
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
    thread: ThreadPoolExecutor | None = None
    """Who works on it; None for the caller."""


class Launches:
    """Launches what a step consists of. Inside ``with launches:`` threads run ahead of the caller, who waits at the end."""

    borrows_arrays = True
    """As arguments of launches that it remembers."""

    def __init__(self, tree: Tree, topology: Topology, device):
        self.device = device
        groups = topology.group_count if topology.dof_count else 0  # without dofs there is nothing to solve
        self._whole = Part(tree, topology.tree_count, groups, Recorded(device))
        self._parts = [self._whole]
        starts = topology.part_start.tolist()
        if len(starts) > 2:
            self._parts = [self._part(topology, *limits) for limits in zip(starts[:-1], starts[1:], strict=True)]
        self._pending = []
        self._ahead = False

    def single(self, kernel, count: int, inputs: list) -> None:
        """Launch a kernel that no threads share."""
        self.wait()
        self._run(self._whole, wp.launch, kernel, count, inputs)

    def items(self, kernel, count: int, inputs: list) -> None:
        """Launch a kernel that loops over so many items; its last argument is how many threads share them.

        CPU kernels run on one thread; a grid would only repeat the loop's bookkeeping.
        """
        threads = 1 if self.device.is_cpu else min(max(count, 1), 65536)
        self.single(kernel, threads, [*inputs, threads])

    def trees(self, kernel, inputs: list) -> None:
        """Launch one thread per tree; the kernel's first argument, the tree bundle, says where to begin."""
        for part in self._shares():
            self._run(part, wp.launch, kernel, part.tree_count, [part.tree, *inputs])

    def groups(self, kernel, inputs: list) -> None:
        """Launch one block per group, with the same first argument."""
        for part in self._shares():
            self._run(part, wp.launch_tiled, kernel, part.group_count, [part.tree, *inputs])

    def wait(self) -> None:
        """Let all threads finish; raises what went wrong in them."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.exception()  # waits, and raises nothing
        for future in pending:
            future.result()

    def __enter__(self):
        self._ahead = True

    def __exit__(self, *_):
        self._ahead = False
        self.wait()

    def _shares(self) -> list[Part]:
        """Return what the threads share; a graph is captured, and replayed, by one."""
        return [self._whole] if self.device.is_capturing else self._parts

    def _run(self, part: Part, launch: Callable, kernel, count: int, inputs: list) -> None:
        if not count:
            return
        if self.device.is_capturing or not self.device.is_cpu:
            launch(
                kernel, dim=[count], inputs=inputs, block_dim=BLOCK_DIM, device=self.device, record_tape=False
            )  # no adjoint: gradients/ has its own launches
            return
        command = part.recorded.prepare(launch, kernel, count, inputs)
        if part.thread is None:
            command.launch()
            return
        self._pending.append(part.thread.submit(command.launch))
        if not self._ahead:
            self.wait()

    def _part(self, topology: Topology, start: int, end: int) -> Part:
        """Return the groups from ``start`` up to ``end``, with a thread of their own."""
        first, last = topology.arrays["group_tree_start"][[start, end]].tolist()
        own = Tree()
        for name in Tree.vars:
            setattr(own, name, getattr(self._whole.tree, name))
        own.first_group, own.first_tree = start, first
        return Part(own, last - first, end - start, Recorded(self.device), ThreadPoolExecutor(1, "newton_sap"))
