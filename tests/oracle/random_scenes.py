"""Random mechanisms for :mod:`oracle.scenes`: what hand-written scenes do not think of.

Trees of hinges and slides, fixed or free, with random anchors, masses from 0.1 to 10 kg, COMs off the origin, full
inertia tensors, several colliders per body, drives, limits, damping and armature, about to fall onto each other.
"""

from __future__ import annotations

import math
import random

STEPS = 30


def random_scene(seed, law):
    """A scene of up to three trees; the same for the same seed on every machine."""
    draw = random.Random(seed)
    bodies, joints, ignore = [], [], []
    for tree in range(draw.randint(1, 3)):
        names = [f"tree{tree}_{i}" for i in range(draw.randint(1, 4))]
        free = len(names) == 1 or draw.random() < 0.5
        for i, name in enumerate(names):
            bodies.append(_body(draw, name))
            if i == 0 and free:
                bodies[-1]["pose"] = [*_vector(draw, 0.3)[:2], draw.uniform(0.1, 0.5), *_rotation(draw)]
                bodies[-1]["twist"] = [_vector(draw, 3.0), _vector(draw, 1.5)]
                continue
            parent = names[draw.randrange(i)] if i else None
            joints.append(_joint(draw, parent, name))
            if parent:
                ignore.append([parent, name])
    return {
        "name": f"random_{law}_{seed}",
        "dt": round(10.0 ** draw.uniform(-3.0, -2.0), 4),
        "steps": STEPS,
        "gravity": [0.0, 0.0, -9.81],
        "ground": _material(draw),
        "bodies": bodies,
        "joints": joints,
        "ignore": ignore,
        "law": law,
    }


def _vector(draw, size):
    return [draw.uniform(-size, size) for _ in range(3)]


def _rotation(draw):
    q = [draw.gauss(0.0, 1.0) for _ in range(4)]
    return [x / math.hypot(*q) for x in q]


def _material(draw):
    return {
        "stiffness": 10.0 ** draw.uniform(4.0, 5.5),
        "relaxation": 10.0 ** draw.uniform(-3.0, -1.0),
        "friction": draw.choice([0.0, 0.2, 0.6, 1.0]),
        "dissipation": 10.0 ** draw.uniform(-1.0, 1.5),
    }


def _body(draw, name):
    """Inertia that a cloud of points has, so that it is one of a possible body."""
    mass, radius, material = 10.0 ** draw.uniform(-1.0, 1.0), draw.uniform(0.05, 0.12), _material(draw)
    cloud = [_vector(draw, radius) for _ in range(6)]
    xx, yy, zz, xy, xz, yz = (
        sum(p[i] * p[j] for p in cloud) / 6.0 for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    )
    about_com = [yy + zz, xx + zz, xx + yy, -xy, -xz, -yz]
    return {
        "name": name,
        "mass": mass,
        "com": _vector(draw, 0.03),
        "inertia": [mass * moment for moment in about_com],
        "balls": [{"at": _vector(draw, 0.08), "radius": radius, **material} for _ in range(draw.randint(1, 3))],
    }


def _joint(draw, parent, child):
    kind = draw.choice(["revolute", "prismatic"])
    anchor = _vector(draw, 0.2) if parent else [*_vector(draw, 0.3)[:2], draw.uniform(0.2, 0.5)]
    position = draw.uniform(-0.5, 0.5) if kind == "revolute" else draw.uniform(-0.1, 0.1)
    axis = _vector(draw, 1.0)
    joint = {
        "name": f"to_{child}",
        "kind": kind,
        "parent": parent,
        "child": child,
        "parent_frame": [*anchor, *_rotation(draw)],
        "child_frame": [*_vector(draw, 0.1), *_rotation(draw)],
        "axis": [x / math.hypot(*axis) for x in axis],
        "position": position,
        "velocity": draw.gauss(0.0, 1.0),
    }
    if draw.random() < 0.5:
        joint["damping"] = 10.0 ** draw.uniform(-2.0, 0.0)
    if draw.random() < 0.3:
        joint["armature"] = 10.0 ** draw.uniform(-3.0, -1.0)
    if draw.random() < 0.5:
        joint["range"] = [position - draw.uniform(0.01, 0.2), position + draw.uniform(0.01, 0.2)]
    if draw.random() < 0.4:
        joint["drive"] = {
            "kp": 10.0 ** draw.uniform(0.0, 4.0),
            "kd": 10.0 ** draw.uniform(-1.0, 2.0),
            "position": position + draw.uniform(-0.01, 0.01),
            "velocity": draw.gauss(0.0, 0.3),
            "effort": 10.0 ** draw.uniform(0.0, 3.0),
        }
    elif draw.random() < 0.4:
        joint["feed_forward"] = draw.gauss(0.0, 3.0)
    return joint
