"""Forces that a step knows at its start: gravity, what the caller applies, and what joints do by themselves."""

import warp as wp

from ..workspace import Bodies, Joints, Motion, Tree
from .drives import Targets, explicit_effort, read_drive
from .joints import BALL, flies, is_free, read_quaternion
from .orders import Orders, free_force_from_joint_f, residual_from_body_f
from .spatial import angular, linear, rotation_vector, to_vec3d, wrench_at

wp.set_module_options({"enable_backward": False})


@wp.struct
class Efforts:
    """The forces the caller applies (Newton's arrays); absent ones have length zero."""

    joint_f: wp.array[wp.float32]
    body_f: wp.array[wp.spatial_vector]
    targets: Targets
    explicit_drives: int
    explicit_springs: int


@wp.func
def gravity_of(bodies: Bodies, world: int):
    """Gravity of a world; the last row serves global bodies, whose world is negative."""
    row = world
    if world < 0:
        row = bodies.gravity.shape[0] - 1
    return to_vec3d(bodies.gravity[row])


@wp.func
def gravity_at(bodies: Bodies, body: int):
    """Gravity of the body's world, less what the body compensates."""
    gravity = gravity_of(bodies, bodies.world[body])
    if bodies.gravcomp.shape[0] > 0:
        gravity = (wp.float64(1.0) - wp.float64(bodies.gravcomp[body])) * gravity
    return gravity


@wp.func
def wrench_of_joint_f(joints: Joints, m: Motion, orders: Orders, efforts: Efforts, joint: int, link: int):
    """What ``joint_f`` of a free, distance or rod joint does to its child, about the world origin."""
    F = free_force_from_joint_f(orders, efforts.joint_f, joints.qd_start[joint], m.com[link] - m.position[link])
    return wrench_at(linear(F), angular(F), m.position[link])


@wp.func
def wrench_of_pushes(tree: Tree, joints: Joints, m: Motion, orders: Orders, efforts: Efforts, link: int):
    """What ``joint_f`` of joints that move no link does to one, about the world origin."""
    wrench = wp.spatial_vectord()
    if efforts.joint_f.shape[0] > 0:
        for k in range(tree.push_start[link], tree.push_start[link + 1]):
            wrench = wrench + wrench_of_joint_f(joints, m, orders, efforts, tree.push_joint[k], link)
    return wrench


@wp.func
def external_wrench(tree: Tree, joints: Joints, bodies: Bodies, m: Motion, orders: Orders, efforts: Efforts, link: int):
    """Gravity, ``body_f`` and the ``joint_f`` of free, distance and rod joints on one body, about the world origin."""
    body = tree.links[link].body
    joint = tree.links[link].joint
    origin = m.position[link]
    r_OC = m.com[link] - origin
    wrench = wrench_at(wp.float64(bodies.mass[body]) * gravity_at(bodies, body), wp.vec3d(), m.com[link])
    if efforts.body_f.shape[0] > 0:
        residual = residual_from_body_f(orders, efforts.body_f, body, r_OC)
        wrench = wrench - wrench_at(linear(residual), angular(residual), origin)
    if joint >= 0 and flies(joints, joint) and efforts.joint_f.shape[0] > 0:
        wrench = wrench + wrench_of_joint_f(joints, m, orders, efforts, joint, link)
    if tree.pushes > 0:
        wrench = wrench + wrench_of_pushes(tree, joints, m, orders, efforts, link)
    return wrench


@wp.func
def spring_effort(tree: Tree, joints: Joints, joint_q: wp.array[wp.float32], link: int, i: int):
    """Force of the passive spring on the i-th dof of a link's joint at q0; joints that fly have none."""
    joint = tree.links[link].joint
    effort = wp.float64(0.0)
    if not flies(joints, joint):
        dof = tree.links[link].dof_start + i
        stiffness = wp.float64(joints.stiffness[tree.dofs[dof].qd])
        if stiffness != wp.float64(0.0):
            if joints.type[joint] == BALL:
                q = read_quaternion(joint_q, joints.q_start[joint])
                rest = read_quaternion(joints.rest_q, joints.q_start[joint])
                effort = stiffness * rotation_vector(rest * wp.quat_inverse(q))[i]
            else:
                coord = tree.dofs[dof].q
                effort = stiffness * (wp.float64(joints.rest_q[coord]) - wp.float64(joint_q[coord]))
    return effort


@wp.func
def applied_effort(
    tree: Tree, joints: Joints, efforts: Efforts, joint_q: wp.array[wp.float32], link: int, i: int, v0: wp.float64
):
    """Force on the i-th dof of a link's joint for the whole step: ``joint_f``, and springs and drives integrated explicitly."""
    joint = tree.links[link].joint
    dof = tree.links[link].dof_start + i
    effort = wp.float64(0.0)
    if not flies(joints, joint):
        if efforts.joint_f.shape[0] > 0:
            effort = wp.float64(efforts.joint_f[tree.dofs[dof].qd])
        if efforts.explicit_springs == 1:
            effort += spring_effort(tree, joints, joint_q, link, i)
        if efforts.explicit_drives == 1 and tree.dofs[dof].q >= 0:
            drive = read_drive(tree, joints, efforts.targets, joint_q, joint, dof, wp.min(i, 2))
            effort += explicit_effort(drive, v0)
    return effort


@wp.func
def joint_effort(
    tree: Tree, joints: Joints, efforts: Efforts, joint_q: wp.array[wp.float32], link: int, i: int, v0: wp.float64
):
    """All that is known of the force on the i-th dof of a link's joint at the start of the step."""
    effort = applied_effort(tree, joints, efforts, joint_q, link, i, v0)
    if efforts.explicit_springs == 0:
        effort += spring_effort(tree, joints, joint_q, link, i)
    return effort


@wp.func
def own_inertia(tree: Tree, joints: Joints, efforts: Efforts, link: int, dof: int, dt: wp.float64):
    """What a dof adds to its diagonal of A: armature, and implicit damping with spring."""
    public = tree.dofs[dof].qd
    armature = wp.float64(0.0)
    implicit = wp.float64(0.0)
    if public >= 0:
        armature = wp.float64(joints.armature[public])
        implicit = dt * wp.float64(joints.damping[public])
        if efforts.explicit_springs == 0 and not is_free(joints.type[tree.links[link].joint]):
            implicit += dt * dt * wp.float64(joints.stiffness[public])
    return armature, implicit
