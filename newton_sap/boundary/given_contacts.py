"""The contacts that a caller hands to a step: checked, bundled, and given room."""

from __future__ import annotations

import logging

import newton
import numpy as np
import warp as wp

from ..contacts.corners import corner_kernels
from ..contacts.filling import fill_kernel
from ..contacts.internal_edges import may_have_edges
from ..contacts.rows import ContactRows
from ..workspace import Pools
from .capacity import contact_capacity, contact_storage, large_group_storage
from .topology import Topology, moved_links

logger = logging.getLogger("newton_sap")


def _bodies_that_stay(model: newton.Model, topology: Topology) -> np.ndarray:
    """Tell which bodies no unknown may move: where one is kinematic, any, since that holds what is rigidly one with it."""
    links = topology.arrays["body_link"]
    stays = ~np.isin(links, moved_links(topology.arrays, links[links >= 0]))
    if topology.prescribed or (model.body_flags.numpy() & int(newton.BodyFlags.KINEMATIC)).any():
        stays[:] = True
    return stays


class GivenContacts:
    """What a solver does with a ``newton.Contacts`` before its kernels see it."""

    def _open_contacts(self, contacts) -> ContactRows | None:
        """Bundle Newton's contact arrays; make room for all of them."""
        if contacts is None:
            return None
        if not isinstance(contacts, newton.Contacts):
            raise TypeError(
                f"contacts must be a newton.Contacts, not {type(contacts).__name__}; pass what pipeline.contacts() returned"
            )
        if contacts.rigid_contact_max == 0:
            return None
        self._require_unreduced_contacts(contacts)
        if contacts is not self._contacts_seen:
            if contacts.device != self.device:
                raise ValueError(
                    f"contacts live on {contacts.device}, the solver's model on {self.device}; use one device"
                )
            if self.model.shape_count:  # else none can be its own, and what Newton makes room for stays empty
                self._reserve_contacts(contacts.rigid_contact_max)
            self._contacts_seen = contacts
        return self.frames.rows(contacts)

    def _warn_without_contacts(self, contacts) -> None:
        """Say once that nothing will touch, if no step was given contacts: other solvers find their own."""
        if contacts is not None or self._warned_without_contacts or self._contacts_seen is not None:
            return
        self._warned_without_contacts = True
        if self.model.shape_contact_pair_count:
            logger.warning(
                "SolverSAP: a step was given no contacts, so that shapes pass through each other; pass those of "
                "pipeline.collide(state, contacts), or SolverSAP(model, collision_pipeline=newton.CollisionPipeline(model))"
            )

    def _were_filled(self) -> bool:
        """Whether a step was given contacts that a pipeline has looked for, or somebody written; reads the device."""
        seen = self._contacts_seen
        return seen is not None and bool(seen.contact_generation.numpy()[0] or seen.rigid_contact_count.numpy()[0])

    def _reserve_contacts(self, rows: int) -> None:
        """Make room for a larger ``Contacts``."""
        if rows <= self.arrivals.next.shape[0]:
            return
        if self.device.is_capturing:
            raise RuntimeError(
                f"the contacts have room for {rows}, the solver for {self.arrivals.next.shape[0]}, and arrays cannot grow "
                f"while a graph is captured; step once with these contacts before capturing, or pass max_contacts={rows} to SolverSAP"
            )
        self._outgrown.append((self.arrivals, self.pool, self.large))  # graphs recorded with them may be replayed
        self._allocate_contacts(rows)

    def _room(self) -> int:
        """How many contacts may act in a step."""
        return contact_capacity(self.pool, self.options.spin_friction)

    def _allocate_contacts(self, rows: int) -> None:
        """Make lists for ``rows`` contacts of Newton, and slots for those that act."""
        size, device = self.topology, self.device
        self.arrivals, self.pool = contact_storage(self.model, size, self.options, self.scratch, rows)
        self.pools = self.scratch.join(Pools, contacts=self.pool, rows=self.rows, couplers=self.couplers)
        if size.needs_iterations:
            self.large = large_group_storage(size, self.problem, self.motion, self.pools, device)
        self._look_for_corners()
        self._look_for_edges()

    def _look_for_edges(self) -> None:
        """Find out whether edges may lie inside surfaces."""
        edges = self.options.pass_over_edges and self.model.shape_count > 0
        if edges:
            compounds = len(self.topology.arrays["dof_faces"]) > 0
            edges = may_have_edges(self.model, _bodies_that_stay(self.model, self.topology), compounds)
        self.fill_kernel = fill_kernel(edges)

    def _look_for_corners(self) -> None:
        """Find out which shapes come down on corners beside those that are found, and make room to tell which."""
        self.corner_kernels = corner_kernels(self.model, self.options)
        rows = self.arrivals.next.shape[0]
        if self.corner_kernels and len(self.arrivals.corners) < rows:
            self.arrivals.corners = wp.zeros(rows, dtype=wp.int32, device=self.device)
