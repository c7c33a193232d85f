"""Newton's own tendons, ropes over guides: which can be simulated, and what the solver keeps of them."""

from __future__ import annotations

import itertools

import newton
import numpy as np
import warp as wp

from ..coupling_bundles import CouplingTable, Routes
from ..runtime.launches import keep_latest
from ..workspace import COUPLER_ROWS, ChosenWorlds, allocate, copy_bundle
from .topology import body_name, moved_links
from .validation import require_arrays

_LIVE = ("compliance", "damping")
_ROUTE = ("body", "radius", "orientation", "offset", "axis", "flags", "mu")
_HISTORY = {
    "rest": "tendon_segment_rest_length",
    "first": "tendon_segment_attachment_l_local",
    "last": "tendon_segment_attachment_r_local",
    "active": "tendon_guide_active",
}
"""What a state remembers of tendons, by field of ``RouteHistory``."""
_OF_ROUTES = {"rest": "rest", "first": "first_local", "last": "last_local", "active": "active"}
"""The same of a bundle."""


def route_name(model, t: int) -> str:
    """Name a tendon in messages."""
    return f"tendon {t} ({model.tendon_label[t]!r})"


def require_ropes(model) -> None:
    """Refuse material that is not finite or negative, and arrays that are too short.

    Raises:
        ValueError: An entry of ``tendon_segment_compliance``, ``tendon_segment_damping`` or ``tendon_guide_mu``, by tendon.
    """
    counts = dict.fromkeys([f"tendon_guide_{name}" for name in (*_ROUTE, "type")], model.tendon_guide_count)
    counts |= dict.fromkeys([f"tendon_segment_{name}" for name in (*_LIVE, "rest_length")], model.tendon_segment_count)
    for name, count in counts.items():
        if len(getattr(model, name)) != count:
            raise ValueError(f"{name} has {len(getattr(model, name))} entries, but the model's tendons need {count}")
    starts = model.tendon_start.numpy()
    for name, shift in (("tendon_segment_compliance", 1), ("tendon_segment_damping", 1), ("tendon_guide_mu", 0)):
        values = getattr(model, name).numpy()
        for index in np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))[:1]:
            t = int(np.searchsorted(starts - shift * np.arange(len(starts)), index, side="right")) - 1
            raise ValueError(
                f"{name}[{index}], of {route_name(model, t)}, is {values[index]:g}; give a finite number that is not negative"
            )


def _bodies_of(model) -> list[np.ndarray]:
    """The bodies that each tendon's guides are on."""
    starts, bodies = model.tendon_start.numpy(), model.tendon_guide_body.numpy()
    guides = [np.unique(bodies[a:b]) for a, b in itertools.pairwise(starts)]
    return [own[own >= 0] for own in guides]


def trees_of_routes(model, topology) -> dict[int, list[int]]:
    """Return the trees that each tendon pulls at, none for one that runs over fixed guides alone.

    Raises:
        NotImplementedError: A guide on a body that no joint moves, or a tendon over bodies of several solve groups.
    """
    if not model.tendon_count:
        return {}
    arrays, trees = topology.arrays, {}
    for t, own in enumerate(_bodies_of(model)):
        links = arrays["body_link"][own]
        for body in own[links < 0][:1]:
            raise NotImplementedError(
                f"{route_name(model, t)} runs over {body_name(model, int(body))}, which no joint moves; give that body a joint, or "
                "the guide to the world (body=-1)"
            )
        touched = np.unique(arrays["link_tree"][moved_links(arrays, links)])
        if len(set(arrays["tree_group"][touched])) > 1:
            raise NotImplementedError(
                f"{route_name(model, t)} spans several worlds; give each world a tendon of its own"
            )
        if len(touched):
            trees[t] = touched.tolist()
    return trees


def couplings_of(model) -> np.ndarray:
    """Return how many couplings each tendon takes, for a row per span."""
    return -(-(np.diff(model.tendon_start.numpy()) - 1) // COUPLER_ROWS)


def most_dofs(model, topology) -> int:
    """Dofs that a row along the longest tendon gathers at most, a span not yet merged into it included."""
    depth = np.diff(topology.arrays["link_path_start"])
    paths = [depth[topology.arrays["body_link"][own]] for own in _bodies_of(model)]
    return max(int(path.sum() + 2 * path.max(initial=0)) for path in paths)


def make_routes(model, pulling=()) -> Routes:
    """Return the bundle of a model's tendons; ``pulling`` says which have guides that can move."""
    count, guides, spans = model.tendon_count, model.tendon_guide_count, model.tendon_segment_count
    of_guides = dict.fromkeys((*_ROUTE, "kind", "active", "initially_active"), guides)
    routes = allocate(Routes, {"*": spans, "start": count + 1, "cable": count, **of_guides}, model.device)
    pulls = [t in pulling for t in range(count)]
    routes.pulls = wp.array(pulls, dtype=wp.bool, device=model.device)
    attach_routes(routes, model)
    return routes


def _routes_of(model) -> np.ndarray:
    """What a solver is built on."""
    return np.stack([getattr(model, f"tendon_guide_{name}").numpy() for name in ("body", "type", "flags")])


def attach_routes(routes: Routes, model) -> None:
    """Point the bundle at the model's arrays."""
    routes.start, routes.kind, routes.world = model.tendon_start, model.tendon_guide_type, model.tendon_world
    routes.authored = model.tendon_segment_rest_length
    for name in _ROUTE:
        setattr(routes, name, getattr(model, f"tendon_guide_{name}"))
    for name in _LIVE:
        setattr(routes, name, getattr(model, f"tendon_segment_{name}"))


class RoutedTendons(newton.solvers.SolverBase):
    """A solver's tendons from step to step: what states remember of them, and the attributes that Newton's own solvers show.

    The attributes are those of a model with tendons, each an array on the device. Per tendon ``tendon_total_cable`` [m], as it was
    laid at construction; per span ``tendon_segment_tension`` [N] in the last step. At the end of that step, per span
    ``tendon_segment_rest_length`` [m], ``tendon_segment_attachment_l`` and ``_r`` [m, world] where it leaves a guide and meets the
    next, the same with ``_local`` in the axes of the guides' bodies, ``tendon_segment_active`` (0 where a dynamic roller is not
    touched, so that the span before goes on), ``tendon_segment_active_guide_l`` and ``_r``; per guide ``tendon_guide_active``.
    """

    def _measure_tendons(self) -> None:
        """Lay all tendons at the model's own pose, where ``self.motion`` is, and keep what is to be measured there."""
        model, count, routes = self.model, self.model.tendon_count, self.couplings.routes
        if not count:
            return
        from . import route_history as kernels  # few models need them

        require_ropes(model)
        self._tendon_routes = _routes_of(model)
        self._tendon_kernels, self._tendon_histories = kernels, {}
        self._tendons_after = self._lay_again()
        self._tendons_now = self._remembered(routes, _OF_ROUTES)
        self._show_tendons(self._tendons_after)
        state = model.state()
        routes.initial_rest.fill_(-1.0)
        routes.initially_active.fill_(True)
        self._lay(self.motion, routes, self._history(state), self._tendons_now, 0, 0.0)
        wp.copy(routes.initial_rest, routes.rest)
        wp.copy(routes.initially_active, routes.active)
        self._lay(self.motion, self._tendons_after, self._tendons_now, self._history(state), 0, 0.0)
        self.launches.single(kernels.measure_cable, count, [self._tendons_after])

    def _require_tendons(self, flags: int) -> None:
        """Take note of replaced arrays; refuse changed routes, and material that makes no sense, where ``flags`` name them."""
        if not self.model.tendon_count:
            return
        attach_routes(self._tendons_after, self.model)
        if not flags & int(newton.ModelFlags.TENDON_PROPERTIES):
            return
        require_ropes(self.model)
        if not np.array_equal(self._tendon_routes, _routes_of(self.model)):
            raise NotImplementedError(
                "tendon_guide_body, tendon_guide_type or tendon_guide_flags changed, but a solver is built for the routes of its "
                "tendons; build it again"
            )

    def _show_tendons(self, routes: Routes) -> None:
        """Make the attributes."""
        from ..constraints.route_geometry import STAYS_OFF

        starts = self.model.tendon_start.numpy()
        guides = [g for t in range(len(starts) - 1) for g in range(starts[t], starts[t + 1] - 1)]
        self.tendon_segment_guide_l = wp.array(guides, dtype=wp.int32, device=self.device)
        self.tendon_segment_active_guide_l = self.tendon_segment_guide_l
        self.tendon_segment_active_guide_r = routes.next_guide
        self.tendon_segment_active, self.tendon_guide_active = routes.lies, routes.active
        self.tendon_segment_attachment_l, self.tendon_segment_attachment_r = routes.first, routes.last
        self.tendon_segment_attachment_l_local = routes.first_local
        self.tendon_segment_attachment_r_local = routes.last_local
        self.tendon_segment_rest_length = routes.rest
        self.tendon_segment_tension = self.couplings.routes.tension
        self.tendon_total_cable = routes.cable
        self.tendon_activation_tol = float(STAYS_OFF)

    def _lay_tendons(self, frame) -> None:
        """Where the tendons touch their guides, and how far they are stretched."""
        if self.model.tendon_count:
            self._lay(self.motion, self.couplings.routes, self._history(frame.state_in), self._tendons_now, 0, frame.dt)

    def _keep_tendons(self, frame) -> None:
        """The tensions, and what the next step has to know of the tendons."""
        if self.model.tendon_count:
            inputs = [self.tree, self.motion, self.couplings.routes, self.couplers, frame.dt]
            self.launches.single(self._tendon_kernels.pull_routes, self.model.tendon_count, inputs)
            self._lay(
                self.motion_after, self._tendons_after, self._tendons_now, self._history(frame.state_out), 1, frame.dt
            )

    def _forget_tendons(self, state, mask) -> None:
        """Let a state's tendons in chosen worlds be as at the beginning."""
        if self.model.tendon_count and state is not None:
            chosen = ChosenWorlds()
            chosen.mask = mask
            inputs = [self.couplings.routes, chosen, self._history(state)]
            self.launches.single(self._tendon_kernels.forget_routes, self.model.tendon_count, inputs)

    def _couplings_at(self, state) -> CouplingTable:
        """The couplings, with the tendons as a state has them that is placed in ``self.motion_after``."""
        if not self.model.tendon_count:
            return self.couplings
        laid = self._lay_again()
        self._lay(self.motion_after, laid, self._history(state), self._remembered(laid, _OF_ROUTES), 0, 0.0)
        return copy_bundle(CouplingTable, self.couplings, {"routes": laid})

    def _lay_again(self) -> Routes:
        """Make another bundle of the same tendons, for another pose."""
        routes, other = self.couplings.routes, make_routes(self.model)
        other.initial_rest, other.initially_active = routes.initial_rest, routes.initially_active
        return other

    def _remembered(self, holder, names: dict[str, str]):
        """What a state or a bundle remembers, by the names that it has for that."""
        history = self._tendon_kernels.RouteHistory()
        for field, name in names.items():
            setattr(history, field, getattr(holder, name))
        return history

    def _lay(self, motion, routes: Routes, before, after, moved: int, dt: float) -> None:
        inputs = [self.tree, motion, self.motion, routes, before, after, moved, dt]
        self.launches.single(self._tendon_kernels.lay_routes, self.model.tendon_count, inputs)

    def _history(self, state):
        """The bundle of a state's arrays of tendons, the same for the same arrays."""
        key = tuple(id(getattr(state, name, None)) for name in _HISTORY.values())
        known = self._tendon_histories.pop(key, None)
        if known is None:
            counts = [self.model.tendon_segment_count] * 3 + [self.model.tendon_guide_count]
            require_arrays("state", state, dict(zip(_HISTORY.values(), counts, strict=True)), self.device)
            known = self._remembered(state, _HISTORY)
        keep_latest(self._tendon_histories, key, known)
        return known
