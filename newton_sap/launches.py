"""Launching kernels over all trees, or all solve groups, by one CPU thread or several.

Groups have nothing in common, so each thread runs the same kernels over its own range of them, in order, and the bits are
those of one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import warp as wp

from .boundary.topology import Topology
from .linalg.lanes import BLOCK_DIM
from .workspace import Tree


class Recorded:
    """Launches by kernel and count. Only arguments that are other objects than the last time are prepared again:
    on a CPU that is most of what a launch costs."""

    def __init__(self, device):
        self._device = device
        self._known = {}

    def prepare(self, launch: Callable, kernel, count: int, inputs: list) -> wp.Launch:
        """Return what ``launch``, one of Warp's functions, would launch."""
        known = self._known.get((kernel, count))
        if known is None:
            command = launch(
                kernel, dim=[count], inputs=inputs, block_dim=BLOCK_DIM, device=self._device, record_cmd=True
            )
        else:
            command, before = known
            for i, value in enumerate(inputs):
                if value is not before[i]:
                    command.set_param_at_index(i, value)
        self._known[kernel, count] = command, inputs
        return command


@dataclass
class Part:
    """A range of groups and their trees: ``tree`` says where it begins."""

    tree: Tree
    tree_count: int
    group_count: int
    recorded: Recorded
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "newton_sap"))


class Launches:
    """Launches what a step consists of. Inside ``with launches:`` threads run ahead of the caller, who waits at the end."""

    def __init__(self, tree: Tree, topology: Topology, device):
        self.device = device
        self._tree, self._tree_count, self._group_count = tree, topology.tree_count, topology.group_count
        starts = topology.part_start.tolist()
        self._parts = [self._part(topology, *limits) for limits in zip(starts[:-1], starts[1:], strict=True)]
        self._recorded = Recorded(device)
        self._pending = []
        self._ahead = False

    def single(self, kernel, count: int, inputs: list) -> None:
        """Launch a kernel that no threads share."""
        self.wait()
        if count:
            self._run(wp.launch, kernel, count, inputs)

    def trees(self, kernel, inputs: list) -> None:
        """Launch one thread per tree; the kernel's first argument, the tree bundle, says where to begin."""
        if self._shared:
            for part in self._parts:
                self._start(part, wp.launch, kernel, part.tree_count, inputs)
        elif self._tree_count:
            self._run(wp.launch, kernel, self._tree_count, [self._tree, *inputs])

    def groups(self, kernel, inputs: list) -> None:
        """Launch one block per group, with the same first argument."""
        if self._shared:
            for part in self._parts:
                self._start(part, wp.launch_tiled, kernel, part.group_count, inputs)
        elif self._group_count:
            self._run(wp.launch_tiled, kernel, self._group_count, [self._tree, *inputs])

    def wait(self) -> None:
        """Let all threads finish; raises what went wrong in them."""
        while self._pending:
            self._pending.pop().result()

    def __enter__(self):
        self._ahead = True

    def __exit__(self, *_):
        self._ahead = False
        self.wait()

    @property
    def _shared(self) -> bool:
        """Whether there are threads to share; a graph is captured, and replayed, by one."""
        return len(self._parts) > 1 and not self.device.is_capturing

    def _run(self, launch: Callable, kernel, count: int, inputs: list) -> None:
        if self.device.is_cpu and not self.device.is_capturing:
            self._recorded.prepare(launch, kernel, count, inputs).launch()
        else:
            launch(kernel, dim=[count], inputs=inputs, block_dim=BLOCK_DIM, device=self.device)

    def _start(self, part: Part, launch: Callable, kernel, count: int, inputs: list) -> None:
        command = part.recorded.prepare(launch, kernel, count, [part.tree, *inputs])
        self._pending.append(part.thread.submit(command.launch))
        if not self._ahead:
            self.wait()

    def _part(self, topology: Topology, start: int, end: int) -> Part:
        """Return the groups from ``start`` up to ``end``."""
        first, last = topology.arrays["group_tree_start"][[start, end]].tolist()
        own = Tree()
        for name in Tree.vars:
            setattr(own, name, getattr(self._tree, name))
        own.first_group, own.first_tree = start, first
        return Part(own, last - first, end - start, Recorded(self.device))
