"""Spatial algebra: motions ``(angular, linear)`` and forces ``(moment, force)`` in world axes about the world origin."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func
def motion(angular: wp.vec3d, linear: wp.vec3d):
    """Stack an angular and a linear part; forces stack as (moment, force)."""
    return wp.spatial_vectord(angular[0], angular[1], angular[2], linear[0], linear[1], linear[2])


@wp.func
def angular(x: wp.spatial_vectord):
    """Angular part of a motion, moment of a force."""
    return wp.vec3d(x[0], x[1], x[2])


@wp.func
def linear(x: wp.spatial_vectord):
    """Velocity of the material at the world origin, or the force."""
    return wp.vec3d(x[3], x[4], x[5])


@wp.func
def rotation_about(axis: wp.vec3d, point: wp.vec3d):
    """Unit rotation about an axis through a point."""
    return motion(axis, wp.cross(point, axis))


@wp.func
def velocity_at(V: wp.spatial_vectord, point: wp.vec3d):
    """Velocity of the material at a point: v + w x p."""
    return linear(V) + wp.cross(angular(V), point)


@wp.func
def wrench_at(force: wp.vec3d, moment: wp.vec3d, point: wp.vec3d):
    """A force through a point with a moment about it, moved to the world origin."""
    return motion(moment + wp.cross(point, force), force)


@wp.func
def cross_motion(V: wp.spatial_vectord, X: wp.spatial_vectord):
    """Rate of a motion vector X carried along by V: V x X."""
    w = angular(V)
    return motion(wp.cross(w, angular(X)), wp.cross(w, linear(X)) + wp.cross(linear(V), angular(X)))


@wp.func
def cross_force(V: wp.spatial_vectord, F: wp.spatial_vectord):
    """Rate of a force vector F carried along by V: V x* F."""
    w = angular(V)
    return motion(wp.cross(w, angular(F)) + wp.cross(linear(V), linear(F)), wp.cross(w, linear(F)))


@wp.func
def inertia_times(mass: wp.float64, moment: wp.vec3d, inertia: wp.mat33d, V: wp.spatial_vectord):
    """Momentum of a rigid body from its mass, first moment and inertia about the world origin."""
    w = angular(V)
    v = linear(V)
    return motion(inertia * w + wp.cross(moment, v), mass * v + wp.cross(w, moment))


@wp.func
def inertia_about_origin(mass: wp.float64, com: wp.vec3d, rotation: wp.quatd, inertia: wp.mat33d):
    """Inertia about the world origin of a body with the given inertia about its COM in body axes."""
    R = wp.quat_to_matrix(rotation)
    shift = wp.identity(n=3, dtype=wp.float64) * wp.dot(com, com) - wp.outer(com, com)
    return R * inertia * wp.transpose(R) + mass * shift


@wp.func
def to_vec3d(x: wp.vec3):
    """Widen a vector to float64."""
    return wp.vec3d(wp.float64(x[0]), wp.float64(x[1]), wp.float64(x[2]))


@wp.func
def to_quatd(x: wp.quat):
    """Widen a quaternion to float64 and normalise away its float32 rounding; NaN stays NaN, unlike in wp.normalize."""
    q = wp.quatd(wp.float64(x[0]), wp.float64(x[1]), wp.float64(x[2]), wp.float64(x[3]))
    length = wp.length(q)
    if length == wp.float64(0.0):
        return wp.quat_identity(dtype=wp.float64)
    return q / length


@wp.func
def to_transformd(X: wp.transform):
    """Widen a transform to float64."""
    return wp.transformd(to_vec3d(wp.transform_get_translation(X)), to_quatd(wp.transform_get_rotation(X)))


@wp.func
def to_mat33d(x: wp.mat33):
    """Widen a matrix to float64 and make it symmetric."""
    m = wp.mat33d()
    for i in range(3):
        for j in range(3):
            m[i, j] = wp.float64(0.5) * (wp.float64(x[i, j]) + wp.float64(x[j, i]))
    return m


@wp.func
def rotation_vector(q: wp.quatd):
    """Axis times angle in [0, pi] of a unit quaternion."""
    s = wp.float64(1.0)
    if q[3] < wp.float64(0.0):
        s = wp.float64(-1.0)
    axis = s * wp.vec3d(q[0], q[1], q[2])
    length = wp.length(axis)
    if length < wp.float64(1.0e-12):
        return wp.float64(2.0) * axis
    return axis * (wp.float64(2.0) * wp.atan2(length, s * q[3]) / length)


@wp.func
def rotation_of(x: wp.vec3d):
    """Unit quaternion of a rotation vector."""
    angle = wp.length(x)
    if angle < wp.float64(1.0e-9):
        return wp.normalize(
            wp.quatd(wp.float64(0.5) * x[0], wp.float64(0.5) * x[1], wp.float64(0.5) * x[2], wp.float64(1.0))
        )
    s = wp.sin(wp.float64(0.5) * angle) / angle
    return wp.quatd(s * x[0], s * x[1], s * x[2], wp.cos(wp.float64(0.5) * angle))
