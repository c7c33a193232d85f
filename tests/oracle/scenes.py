"""Scenes that two engines can be asked to step from the same state.

A scene is a plain dictionary, so that it can be stored next to the trajectory computed from it.  Every collider is
a sphere or the half-space below z = 0: a pair then has exactly one contact point, and two engines with different
collision code still see the same contacts.

======== ==============================================================================================
field    content
======== ==============================================================================================
bodies   ``mass`` [kg]; ``com`` [m] in body axes; ``inertia`` [kg m^2] about the COM in body axes, order
         xx yy zz xy xz yz; ``balls``: sphere colliders with ``at`` and ``radius`` [m]; ``pose``:
         x y z qx qy qz qw of a free body; ``twist``: its ``[omega, v_origin]`` in world axes
joints   ``kind`` revolute, prismatic or ball; ``parent`` a body's name or None for the world; anchor
         poses ``parent_frame`` and ``child_frame``; ``axis`` in the anchor; ``position``, ``velocity``
         at the start; ``damping``, ``armature``; ``range`` of the coordinate; ``drive``: ``kp``, ``kd``,
         ``position``, ``velocity``, ``effort``; ``feed_forward``: explicit generalised force
ground   material of the half-space, or None
material ``stiffness`` [N/m], ``relaxation`` time [s], ``friction`` [-]
ignore   pairs of bodies that do not collide
law      contact law: sap, lagged or similar; the last two read ``dissipation`` [s/m] of a material
======== ==============================================================================================
"""

from __future__ import annotations

import copy
import math
import struct

try:
    from oracle.random_scenes import random_scene
except ModuleNotFoundError:  # imported by a script
    from random_scenes import random_scene

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
DOWN = (0.0, 0.0, -9.81)
STILL = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
RUBBER = {"stiffness": 2.0e5, "relaxation": 0.03, "friction": 0.6, "dissipation": 4.0}
STEEL = {"stiffness": 5.0e6, "relaxation": 0.002, "friction": 0.2, "dissipation": 10.0}


def _sphere_collider(at=(0.0, 0.0, 0.0), radius=0.1, material=RUBBER):
    return {"at": list(at), "radius": radius, **material}


def _ball(name, position, radius=0.1, mass=1.0, twist=STILL, material=RUBBER, com=(0.0, 0.0, 0.0)):
    """A free solid sphere."""
    i = 0.4 * mass * radius**2
    return {
        "name": name,
        "mass": mass,
        "com": list(com),
        "inertia": [i, i, i, 0.0, 0.0, 0.0],
        "balls": [_sphere_collider(radius=radius, material=material)],
        "pose": [*position, *UPRIGHT],
        "twist": [list(twist[0]), list(twist[1])],
    }


def _corner_box(name, half, pose, mass=1.0, twist=STILL, radius=0.03, material=RUBBER, com=(0.0, 0.0, 0.0), shear=0.0):
    """A free box that touches with a small sphere at each corner; ``shear`` adds products of inertia."""
    x, y, z = half
    corners = [(a * x, b * y, c * z) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]
    third = mass / 3.0
    return {
        "name": name,
        "mass": mass,
        "com": list(com),
        "inertia": [
            third * (y * y + z * z),
            third * (x * x + z * z),
            third * (x * x + y * y),
            shear,
            -shear,
            0.5 * shear,
        ],
        "balls": [_sphere_collider(at, radius, material) for at in corners],
        "pose": list(pose),
        "twist": [list(twist[0]), list(twist[1])],
    }


def _rod(name, mass=0.8, length=0.4, balls=()):
    """A slender body hanging along -z from its joint."""
    i = mass * length**2 / 12.0
    return {
        "name": name,
        "mass": mass,
        "com": [0.0, 0.0, -0.5 * length],
        "inertia": [i, i, 0.05 * i, 0.0, 0.0, 0.0],
        "balls": list(balls),
    }


def _joint(name, kind, parent, child, at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0), **more):
    return {
        "name": name,
        "kind": kind,
        "parent": parent,
        "child": child,
        "parent_frame": [*at, *UPRIGHT],
        "child_frame": [0.0, 0.0, 0.0, *UPRIGHT],
        "axis": list(axis),
        **more,
    }


def _scene(name, dt, steps, bodies, joints=(), ground=RUBBER, gravity=DOWN, ignore=()):
    return {
        "name": name,
        "dt": dt,
        "steps": steps,
        "gravity": list(gravity),
        "ground": dict(ground) if ground else None,
        "bodies": list(bodies),
        "joints": list(joints),
        "ignore": [list(pair) for pair in ignore],
        "law": "sap",
    }


def ball_drop():
    """A ball falls onto the ground and comes to rest."""
    return _scene("ball_drop", 0.005, 120, [_ball("ball", (0.1, -0.2, 0.25))])


def ball_roll_slip():
    """A sliding ball picks up spin until it rolls."""
    return _scene("ball_roll_slip", 0.004, 150, [_ball("ball", (0, 0, 0.0999), twist=((0, 0, 1.0), (1.5, -0.4, 0)))])


def box_slide_offset_com():
    """A box with its COM off the origin slides and turns."""
    box = _corner_box(
        "box", (0.15, 0.12, 0.06), (0, 0, 0.0899, *UPRIGHT), 2.0, ((0, 0, 0.5), (1.2, 0.3, 0)), com=(0.02, -0.03, 0.01)
    )
    return _scene("box_slide_offset_com", 0.005, 120, [box])


def box_tumble():
    """A spinning box with a full inertia tensor hits the ground with its corners."""
    tilted = (0, 0, 0.32, 0.3, -0.1, 0.5, math.sqrt(1.0 - 0.35))
    box = _corner_box(
        "box", (0.14, 0.1, 0.07), tilted, 1.5, ((4, 2, -3), (0.3, -0.6, -1.0)), com=(-0.01, 0.02, 0.015), shear=4e-4
    )
    return _scene("box_tumble", 0.004, 150, [box])


def ball_stack():
    """Three balls rest on each other, the heavier ones above."""
    balls = [
        _ball("low", (0, 0, 0.0999), mass=1.0),
        _ball("middle", (0, 0.001, 0.2995), mass=2.0),
        _ball("high", (0.001, 0, 0.499), mass=6.0),
    ]
    return _scene("ball_stack", 0.005, 100, balls)


def double_pendulum():
    """Two skew hinges with damping and armature."""
    joints = [
        _joint(
            "shoulder", "revolute", None, "upper", (0.1, 0, 2), damping=0.1, armature=0.03, position=0.9, velocity=-0.5
        ),
        _joint(
            "elbow",
            "revolute",
            "upper",
            "lower",
            (0, 0, -0.4),
            (0.6, 0.8, 0),
            damping=0.04,
            position=-0.4,
            velocity=1.5,
        ),
    ]
    return _scene("double_pendulum", 0.002, 250, [_rod("upper"), _rod("lower")], joints, ground=None)


def pd_arm_effort_limit():
    """A driven arm; the first drive is saturated for part of the time."""
    soft = {"kp": 150.0, "kd": 8.0, "position": 1.0, "velocity": 0.0, "effort": 5.0}
    hard = {"kp": 4000.0, "kd": 80.0, "position": -0.7, "velocity": 0.2, "effort": 1.0e8}
    joints = [
        _joint("shoulder", "revolute", None, "upper", (0, 0, 2), armature=0.02, position=0.1, drive=soft),
        _joint("elbow", "revolute", "upper", "lower", (0, 0, -0.4), position=0.3, drive=hard),
    ]
    return _scene("pd_arm_effort_limit", 0.005, 150, [_rod("upper"), _rod("lower")], joints, ground=None)


def pendulum_hits_limits():
    """A hinge runs into both ends of its range; Drake's limit is near-rigid with a relaxation time of one step."""
    joints = [
        _joint("shoulder", "revolute", None, "upper", (0, 0, 2), armature=0.02, position=0.8),
        _joint(
            "elbow",
            "revolute",
            "upper",
            "lower",
            (0, 0, -0.4),
            damping=0.02,
            position=0.0,
            velocity=2.0,
            range=[-0.1, 0.25],
        ),
    ]
    return _scene("pendulum_hits_limits", 0.004, 200, [_rod("upper"), _rod("lower")], joints, ground=None)


def slider_hits_ball():
    """A damped slider pushes a ball along the ground."""
    slider = {
        "name": "slider",
        "mass": 2.5,
        "com": [0.01, 0.0, 0.0],
        "inertia": [0.03, 0.03, 0.03, 0.0, 0.0, 0.0],
        "balls": [_sphere_collider((0.1, 0, 0), 0.1, STEEL)],
    }
    joints = [_joint("rail", "prismatic", None, "slider", (0, 0, 0.14), (1, 0, 0), damping=1.5, velocity=1.8)]
    return _scene("slider_hits_ball", 0.004, 120, [slider, _ball("ball", (0.36, 0.01, 0.0999))], joints)


def sphere_pile():
    """Seven balls fall into a heap."""
    layout = [
        (0, 0, 0.1),
        (0.19, 0.01, 0.11),
        (0.09, 0.17, 0.1),
        (0.1, 0.06, 0.28),
        (-0.02, 0.12, 0.3),
        (0.2, 0.1, 0.33),
        (0.09, 0.09, 0.5),
    ]
    balls = [
        _ball(f"ball_{i}", p, mass=0.5 + 0.3 * i, twist=((0, 0, 0.5 * i), (0, 0, -0.5))) for i, p in enumerate(layout)
    ]
    return _scene("sphere_pile", 0.005, 60, balls)


def ball_on_incline():
    """Gravity is tilted by 20 degrees; the ball starts at rest and rolls."""
    tilt = math.radians(20.0)
    gravity = (9.81 * math.sin(tilt), 0.0, -9.81 * math.cos(tilt))
    return _scene("ball_on_incline", 0.005, 100, [_ball("ball", (0, 0, 0.09995))], gravity=gravity)


def mass_ratio_stack():
    """50 kg stand on 50 g."""
    light = _ball("light", (0, 0, 0.0497), radius=0.05, mass=0.05, material=STEEL)
    heavy = _ball("heavy", (0, 0, 0.1995), radius=0.1, mass=50.0, material=STEEL)
    return _scene("mass_ratio_stack", 0.002, 100, [light, heavy], ground=STEEL)


def chain_sweep():
    """A chain of five links swings down until the ball at its tip sweeps over the ground."""
    links = [_rod(f"link_{i}", 0.4, 0.2) for i in range(5)]
    links[4]["balls"] = [_sphere_collider((0, 0, -0.2), 0.05)]
    links[3]["balls"] = [_sphere_collider((0, 0, -0.2), 0.045)]
    axes = [(0, 1, 0), (1, 0, 0), (0, 1, 0), (0.8, 0.6, 0), (0, 1, 0)]
    start = [0.5, 0.1, 0.2, -0.1, 0.1]
    joints = [
        _joint(
            f"hinge_{i}", "revolute", f"link_{i - 1}" if i else None, f"link_{i}",
            (0, 0, -0.2) if i else (0, 0, 0.98), axes[i], damping=0.01, position=start[i],
        )
        for i in range(5)
    ]  # fmt: skip
    return _scene("chain_sweep", 0.004, 150, links, joints)


def gripper():
    """Two driven fingers close on a box and hold it above the ground."""
    pads = [(0, y, z) for y in (-0.05, 0.05) for z in (-0.05, 0.05)]
    fingers = [
        {
            "name": name,
            "mass": 0.4,
            "com": [0.0, 0.0, 0.02],
            "inertia": [1e-3, 8e-4, 6e-4, 0.0, 0.0, 0.0],
            "balls": [_sphere_collider(at, 0.04) for at in pads],
        }
        for name in ("left", "right")
    ]
    squeeze = {"kp": 2000.0, "kd": 60.0, "velocity": 0.0, "effort": 25.0}
    joints = [
        _joint(
            "left_rail",
            "prismatic",
            None,
            "left",
            (-0.17, 0, 0.3),
            (1, 0, 0),
            position=0.0,
            drive={**squeeze, "position": 0.08},
        ),
        _joint(
            "right_rail",
            "prismatic",
            None,
            "right",
            (0.17, 0, 0.3),
            (1, 0, 0),
            position=0.0,
            drive={**squeeze, "position": -0.08},
        ),
    ]
    box = _corner_box("box", (0.06, 0.048, 0.052), (0.002, 0.001, 0.3, *UPRIGHT), 0.5, radius=0.03)
    return _scene("gripper", 0.004, 120, [*fingers, box], joints)


def large_step():
    """A box tumbles with steps of 20 ms."""
    tilted = (0, 0, 0.3, 0.2, 0.3, -0.1, math.sqrt(1.0 - 0.14))
    box = _corner_box("box", (0.12, 0.1, 0.08), tilted, 1.0, ((-2, 3, 1), (1.0, 0.2, -0.5)), com=(0.01, 0.01, -0.02))
    return _scene("large_step", 0.02, 60, [box])


def ball_pendulum():
    """A ball-jointed rod with a hinged one below it; coordinates of ball joints differ, so bodies are compared."""
    joints = [
        _joint("socket", "ball", None, "upper", (0, 0, 2), damping=0.03, velocity=[0.8, -1.2, 0.5]),
        _joint("hinge", "revolute", "upper", "lower", (0, 0, -0.4), (0, 1, 0), damping=0.02, position=0.6),
    ]
    return _scene("ball_pendulum", 0.002, 200, [_rod("upper"), _rod("lower")], joints, ground=None)


def prismatic_limits():
    """A hanging slider bounces between the ends of its range."""
    lift = {"name": "lift", "mass": 3.0, "com": [0, 0, 0], "inertia": [0.02, 0.02, 0.02, 0, 0, 0], "balls": []}
    arm = _rod("arm")
    joints = [
        _joint("rail", "prismatic", None, "lift", (0, 0, 1), (0, 0, 1), damping=0.5, velocity=1.5, range=[-0.05, 0.08]),
        _joint("hinge", "revolute", "lift", "arm", position=0.7),
    ]
    return _scene("prismatic_limits", 0.004, 150, [lift, arm], joints, ground=None)


def arm_feed_forward():
    """One joint has only a feed-forward, one a drive with an unsaturated feed-forward, one a saturated drive."""
    track = {"kp": 120.0, "kd": 6.0, "position": 0.5, "velocity": 0.1, "effort": 60.0}
    weak = {"kp": 300.0, "kd": 10.0, "position": 1.5, "velocity": 0.0, "effort": 0.6}
    joints = [
        _joint(
            "base", "revolute", None, "upper", (0, 0, 2), armature=0.05, damping=0.2, position=0.4, feed_forward=2.5
        ),
        _joint("elbow", "revolute", "upper", "lower", (0, 0, -0.4), position=-0.2, drive=track, feed_forward=-1.5),
        _joint("wrist", "revolute", "lower", "hand", (0, 0, -0.4), (1, 0, 0), armature=0.01, drive=weak),
    ]
    hand = _rod("hand", 0.3, 0.2)
    return _scene("arm_feed_forward", 0.005, 150, [_rod("upper"), _rod("lower"), hand], joints, ground=None)


def _in_single_precision(value):
    """Round every number to float32, which is what Newton stores, so that both engines get the very same scene."""
    if isinstance(value, dict):
        return {key: _in_single_precision(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_single_precision(item) for item in value]
    return struct.unpack("f", struct.pack("f", value))[0] if isinstance(value, float) else value


_ALL = (
    ball_drop, ball_roll_slip, box_slide_offset_com, box_tumble, ball_stack, double_pendulum, pd_arm_effort_limit,
    pendulum_hits_limits, slider_hits_ball, sphere_pile, ball_on_incline, mass_ratio_stack, chain_sweep, gripper,
    large_step, ball_pendulum, prismatic_limits, arm_feed_forward,
)  # fmt: skip

SCENES = {make.__name__: make() for make in _ALL}


def _under_law(name, law, stiffness=None):
    """A shorter copy of a scene under another contact law, all materials of the given stiffness."""
    scene = copy.deepcopy(SCENES[name])
    scene.update(name=f"{name}_{law}", law=law, steps=60)
    colliders = [ball for body in scene["bodies"] for ball in body["balls"]] + [scene["ground"]]
    for collider in colliders if stiffness else ():
        collider["stiffness"] = stiffness
    return scene


# The lagged law bounds friction by stiffness times depth at the start of the step, and so passes on how poses round to
# float32. Under 2e5 N/m Drake's own answer for these two moves by 2e-5 when its input moves by one bit.
_SOFT = 1.0e4
_OTHER_LAWS = (
    _under_law("ball_roll_slip", "lagged"), _under_law("box_tumble", "lagged"), _under_law("sphere_pile", "lagged", _SOFT),
    _under_law("gripper", "lagged", _SOFT), _under_law("box_slide_offset_com", "similar"),
    _under_law("slider_hits_ball", "similar"), _under_law("chain_sweep", "similar"),
)  # fmt: skip
_RANDOM = tuple(random_scene(seed, law) for law in ("sap", "lagged", "similar") for seed in (4, 5, 9))
SCENES.update({scene["name"]: scene for scene in _OTHER_LAWS + _RANDOM})

SCENES = {name: {**_in_single_precision(scene), "dt": scene["dt"]} for name, scene in SCENES.items()}
