"""What ``SolverKamino.reset(state, config=...)`` asks for, done to the state of any solver, as far as poses alone tell it.

Bodies and joints go back to the model's initial values and mechanisms are moved as a whole. Poses and velocities that
follow from joint coordinates through closed loops would need Kamino's own forward kinematics; they are named as not applied.
"""

from __future__ import annotations

import newton
import numpy as np
import warp as wp


def reset_state(model, state, config, world_mask=None, flags=None) -> list[str]:
    """Apply a ``SolverKamino.ResetConfig`` to a state.

    Args:
        model: Model of the state.
        state: State to change in place.
        config: The configuration.
        world_mask: (world_count + 1,) bool array; None chooses all worlds.
        flags: ``newton.StateFlags`` of the arrays to write; None writes all.

    Returns:
        One entry for every part of the configuration that was not applied.
    """
    flags = int(newton.StateFlags.ALL if flags is None else flags)
    chosen = np.ones(model.world_count + 1, dtype=bool) if world_mask is None else world_mask.numpy().astype(bool)
    poses, velocities = (type(part).__name__ for part in (config.body_poses, config.body_velocities))
    base_pose, base_velocity = (type(part).__name__ for part in (config.base_pose, config.base_velocity))
    values = {name: getattr(state, name) for name in ("joint_q", "joint_qd", "body_q", "body_qd")}
    values = {name: array.numpy().copy() for name, array in values.items() if array is not None}
    restore = ["joint_q", "body_q"] if poses == "ToDefault" else []
    at_rest = ["joint_qd", "body_qd"] if velocities == "ToDefault" else []
    rows = {"joint_q": _rows(model, model.joint_q_start), "joint_qd": _rows(model, model.joint_qd_start)}
    rows["body_q"] = rows["body_qd"] = model.body_world.numpy() if model.body_count else np.zeros(0, int)
    for name in (n for n in restore + at_rest if n in values):
        initial = getattr(model, name).numpy() if name in restore else np.zeros_like(values[name])
        values[name][chosen[rows[name]]] = initial[chosen[rows[name]]]
    if base_pose == "FromBaseQ":
        _move_bases(model, values, config.base_pose.base_q.numpy(), chosen)
    for name, value in values.items():
        if flags & int(newton.StateFlags[name.upper()]):
            getattr(state, name).assign(value)
    known = {"ToDefault", "Preserve"}
    parts = {"body_poses": (poses, known), "body_velocities": (velocities, known)}
    parts |= {"base_pose": (base_pose, known | {"FromBaseQ"}), "base_velocity": (base_velocity, known)}
    return [f"{part}={kind}" for part, (kind, applied) in parts.items() if kind not in applied]


def _rows(model, start) -> np.ndarray:
    """World of each entry of a joint array."""
    if not model.joint_count:
        return np.zeros(0, int)
    return np.repeat(model.joint_world.numpy(), np.diff(start.numpy()))


def _move_bases(model, values, base_q, chosen) -> None:
    """Carry the bodies of each world along with its base, and the free joints that place them."""
    world, parent, child = model.body_world.numpy(), model.joint_parent.numpy(), model.joint_child.numpy()
    free = model.joint_type.numpy() == int(newton.JointType.FREE)
    for w in np.flatnonzero(chosen[: model.world_count]):
        bodies = np.flatnonzero(world == w)
        to_world = [j for j in np.flatnonzero(parent == -1) if world[child[j]] == w]
        floating = [j for j in to_world if free[j]]
        if not len(bodies) or (to_world and not floating):
            continue  # no base that could be moved
        target = wp.transform(*(float(x) for x in base_q[w]))
        base = bodies[0]
        if floating:
            base = child[floating[0]]
            target = (
                _frame(model.joint_X_p, floating[0])
                * target
                * wp.transform_inverse(_frame(model.joint_X_c, floating[0]))
            )
        shift = target * wp.transform_inverse(wp.transform(*(float(x) for x in values["body_q"][base])))
        for b in bodies:
            values["body_q"][b] = np.array(shift * wp.transform(*(float(x) for x in values["body_q"][b])))
        for j in floating:
            placed = wp.transform(*(float(x) for x in values["body_q"][child[j]]))
            placed = wp.transform_inverse(_frame(model.joint_X_p, j)) * placed * _frame(model.joint_X_c, j)
            start = model.joint_q_start.numpy()[j]
            values["joint_q"][start : start + 7] = np.array(placed)


def _frame(frames, j: int) -> wp.transform:
    return wp.transform(*(float(x) for x in frames.numpy()[j]))
