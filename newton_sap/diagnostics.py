"""What the solver did, per solve group: a typed report read from the device on request."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import warp as wp

from .workspace import GroupStats, Stats, allocate

wp.set_module_options({"enable_backward": False})

REASONS = ("unconstrained", "optimal", "cost settled", "iteration limit", "stalled", "non-finite")
"""Names of :attr:`SolverReport.reason`, by value."""

NAMED = 8
"""Most worlds that a message names."""


@dataclass(frozen=True)
class SolverReport:
    """State of the last step and counts since construction or reset; arrays have one entry per solve group.

    A solve group is a world, unless a moving global body with shapes couples all worlds into one group.
    """

    world: np.ndarray
    """Newton world of the group; -1 for global entities, or where all worlds form one group."""
    iterations: np.ndarray
    """Newton iterations of the last step; of both minimisations where surfaces rebound, and of several clusters of trees the most."""
    iterations_max: np.ndarray
    """Most iterations of any step."""
    line_search_evaluations: np.ndarray
    """Evaluations of the line search in the last step, of several clusters the most."""
    reason: np.ndarray
    """Why the last iteration stopped, an index into ``REASONS``."""
    residual: np.ndarray
    """Scaled momentum residual at the end of the last step [sqrt(J)], of several clusters the largest beside its scale."""
    scale: np.ndarray
    """What the residual is measured against [sqrt(J)]."""
    contacts: np.ndarray
    """Contacts in the last step's problem."""
    contacts_peak: np.ndarray
    """Most contacts of any step."""
    penetration: np.ndarray
    """Deepest contact at the start of the last step [m]."""
    unconverged_steps: np.ndarray
    """Steps that ended at the iteration limit or stalled."""
    non_finite_steps: np.ndarray
    """Steps whose input was not finite, or the velocity that came of it; coordinates beyond float32 are input of the next one."""
    last_failure: np.ndarray
    """Why the last of the steps counted in these two stopped, an index into ``REASONS``; 0 where there is none."""
    contacts_dropped: np.ndarray
    """Contacts that found no room in the solver, or none for their spin friction, over all steps. While all worlds together
    have more contacts than :attr:`contact_capacity`, each may keep an equal share of it: its deepest."""
    contacts_without_normal: np.ndarray
    """Overlaps left out, over all steps, because Newton's contact has no normal and neither shape is an ellipsoid."""
    contact_rows_lost: int
    """Contacts that reached no world: beyond Newton's own capacity, or naming shapes that the model does not have."""
    contact_capacity: int
    """Contacts the solver has room for, in all worlds together; with ``spin_friction`` those without coefficients of spin
    friction take half the room."""
    memory: int
    """Arrays the solver holds beside the model's [bytes]."""
    steps: int
    """Steps since construction or reset."""
    contacts_given: bool
    """Whether any step was given contacts that a pipeline has looked for, of the solver's own or not."""
    kinetic_energy: np.ndarray | None = None
    """Of the state given to ``report(state)`` [J]: bodies and armatures, of tendons as well; None without a state."""
    potential_energy: np.ndarray | None = None
    """Of gravity, zero at the world origin, and of passive springs of joints and tendons [J]."""
    linear_momentum: np.ndarray | None = None
    """(groups, 3) of the bodies [N s]."""
    angular_momentum: np.ndarray | None = None
    """(groups, 3) of the bodies about the world origin [N m s]."""
    loop_gap: np.ndarray | None = None
    """How far the anchors of a loop joint, an equality of bodies or a distance joint are at most from where it holds them [m]."""
    loop_angle: np.ndarray | None = None
    """How far the first two are turned at most away from how they hold [rad]."""

    @property
    def healthy(self) -> bool:
        """Every step converged, stayed finite and kept all its contacts."""
        failures = (
            self.unconverged_steps,
            self.non_finite_steps,
            self.contacts_dropped,
            self.contacts_without_normal,
        )
        return not (any(counts.any() for counts in failures) or self.contact_rows_lost)

    def __str__(self) -> str:
        def summary(values):
            values = values[np.isfinite(values)]
            return f"{np.mean(values):.3g} mean, {np.max(values):.3g} max" if len(values) else "-"

        def counted(counts):
            return f"{counts.sum()} in {_name_worlds(self, counts > 0)}" if counts.any() else "0"

        found = summary(self.contacts)
        if not self.contacts_given:
            found = "no step was given any: pipeline.collide(state, contacts) finds them"
        lines = {
            "steps": self.steps,
            "groups": len(self.world),
            "iterations, last step": summary(self.iterations),
            "iterations, any step": summary(self.iterations_max),
            "line search evaluations": summary(self.line_search_evaluations),
            "residual / scale": summary(self.residual / np.maximum(self.scale, 1e-300)),
            "contacts, last step": found,
            "contacts, any step": summary(self.contacts_peak),
            "penetration [m]": summary(self.penetration),
            "stopped because": ", ".join(sorted({REASONS[r] for r in self.reason})) or "-",
            "unconverged steps": counted(self.unconverged_steps),
            "non-finite steps": counted(self.non_finite_steps),
            "last failures": ", ".join(sorted({REASONS[r] for r in self.last_failure if r})) or "-",
            "contacts dropped": f"{counted(self.contacts_dropped)} (capacity {self.contact_capacity})",
            "contacts without a normal": counted(self.contacts_without_normal),
            "contact rows lost": self.contact_rows_lost,
            "memory per group [KiB]": f"{self.memory / 1024 / max(len(self.world), 1):.1f}",
        }
        if self.kinetic_energy is not None:
            lines["kinetic energy [J]"] = summary(self.kinetic_energy)
            lines["potential energy [J]"] = summary(self.potential_energy)
            if np.any(self.loop_gap) or np.any(self.loop_angle):
                lines["loops open [m], [rad]"] = f"{summary(self.loop_gap)}; {summary(self.loop_angle)}"
            for name, momentum in (("linear", self.linear_momentum), ("angular", self.angular_momentum)):
                unit = "N s" if name == "linear" else "N m s"
                lines[f"|{name} momentum| [{unit}]"] = summary(np.linalg.norm(np.asarray(momentum), axis=1))
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def allocate_stats(topology, device) -> Stats:
    """Return counters that are zero."""
    sizes = dict.fromkeys(("groups", "without_normal"), topology.group_count)
    return allocate(Stats, {"*": 1, **sizes, "clusters": topology.tree_count if topology.has_islands else 0}, device)


def read_report(
    stats: Stats,
    group_world: np.ndarray,
    capacity: int = 0,
    memory: int = 0,
    of_state: dict[str, np.ndarray] | None = None,
    contacts_given: bool = True,
) -> SolverReport:
    """Copy the counters to the host, beside energies and momenta where given; synchronises the device."""
    groups = stats.groups.numpy()
    names = {f.name for f in fields(SolverReport)} & set(groups.dtype.names) - {"steps"}
    return SolverReport(
        world=group_world.copy(),
        line_search_evaluations=groups["line_search"].copy(),
        contacts_dropped=groups["dropped"].copy(),
        contacts_without_normal=stats.without_normal.numpy().copy(),
        contact_rows_lost=int(stats.lost_rows.numpy()[0]),
        contact_capacity=capacity,
        memory=memory,
        steps=int(groups["steps"].max(initial=0)),
        contacts_given=contacts_given,
        **{name: groups[name].copy() for name in names},
        **(of_state or {}),
    )


def require_healthy(report: SolverReport, before: SolverReport | None) -> None:
    """Raise ``RuntimeError`` where counts of failures grew since an earlier report, or since a reset after it."""

    def growth(name):
        now = getattr(report, name)
        known = 0 if before is None else getattr(before, name)
        return now - np.where(now < known, 0, known)

    found = []
    for name, what, remedy in (
        ("unconverged_steps", "did not converge", "; look for masses or gains far apart, or raise max_iterations"),
        ("non_finite_steps", "is not finite: NaN or infinity in state, control, model arrays or result", ""),
    ):
        grown = growth(name) > 0
        if grown.any():
            reasons = ", ".join(sorted({REASONS[r] for r in report.last_failure[grown]}))
            found.append(f"{_name_worlds(report, grown)} {what} ({reasons}){remedy}")
    dropped = growth("contacts_dropped")
    if (dropped > 0).any():
        found.append(
            f"{_name_worlds(report, dropped > 0)}: {dropped.sum()} contacts found no room (capacity {report.contact_capacity}); "
            "raise max_contacts"
        )
    flat = growth("contacts_without_normal")
    if (flat > 0).any():
        found.append(
            f"{_name_worlds(report, flat > 0)}: {flat.sum()} overlaps left out, because the collision pipeline gave them no "
            "normal; let convex hulls or meshes stand for cones and the like"
        )
    lost = growth("contact_rows_lost")
    if lost > 0:
        found.append(
            f"{lost} contact rows lost; raise the pipeline's rigid_contact_max, and hand over contacts of this model"
        )
    if found:
        first = 1 if before is None or before.steps >= report.steps else before.steps + 1
        which = (
            f"step {report.steps}"
            if first == report.steps
            else f"one of steps {first} to {report.steps}, replays included"
        )
        raise RuntimeError(f"{which}: " + "; ".join(found))


def _name_worlds(report: SolverReport, chosen: np.ndarray) -> str:
    """Name the first few of the chosen worlds in a message, and say how many more there are."""
    if len(report.world) == 1 and report.world[0] < 0:
        return "the model"  # it has no worlds, or all are tied
    worlds = ["-1 (global)" if w < 0 else str(w) for w in report.world[chosen]]
    more = f" and {len(worlds) - NAMED} more" if len(worlds) > NAMED else ""
    return "world " + ", ".join(worlds[:NAMED]) + more


@wp.kernel
def clear_stats(stats: Stats, group_world: wp.array[wp.int32], mask: wp.array[wp.bool]):
    """Forget the history of the chosen worlds; the mask's last entry stands for global entities and for what no world has."""
    g = wp.tid()
    if g == group_world.shape[0]:
        if mask.shape[0] == 0 or mask[mask.shape[0] - 1]:
            stats.lost_rows[0] = 0
            stats.overflows[0] = 0
        return
    chosen = True
    if mask.shape[0] > 0:
        world = int(group_world[g])
        if world < 0:
            world = mask.shape[0] - 1
        chosen = mask[world]
    if chosen:
        stats.groups[g] = GroupStats()
        stats.without_normal[g] = 0
