"""Conventions: round trips, power, chains and frame changes, against Warp, MuJoCo and Drake."""

from importlib.util import find_spec

import free_joint_order as order
import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from newton_sap import conventions as cv
from newton_sap.conventions import device

NAMES = tuple(cv.CONVENTIONS)
POINT = np.array([0.7, -0.4, 0.2])  # of conventions about a given point
DEVICE_NAMES = [name for name in NAMES if cv.CONVENTIONS[name].point != "given"]
DEVICE_PAIRS = [(a, b) for a in DEVICE_NAMES for b in DEVICE_NAMES]
PAIRS = [(a, b) for a in NAMES for b in NAMES]
ORDERS = ("linear", "angular")
FORMS = ("plx", "plxb")

components = st.floats(-10.0, 10.0, allow_nan=False, width=32)
vectors = st.lists(components, min_size=3, max_size=3).map(np.array)
spatials = st.lists(components, min_size=6, max_size=6).map(np.array)
rotations = st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3).map(Rotation.from_rotvec)
poses = st.builds(lambda p, R: np.concatenate([p, R.as_quat()]), vectors, rotations)
names = st.sampled_from(NAMES)
orders = st.sampled_from(ORDERS)
forms = st.sampled_from(FORMS)


def close(actual, expected, size=1.0):
    """Assert equality to rounding of numbers of the given size."""
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11 * max(1.0, size))


def random_bodies(seed, count):
    """Return random (pose, com, twist, wrench), each with ``count`` rows."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(count, 4))
    pose = np.concatenate([rng.normal(size=(count, 3)), q / np.linalg.norm(q, axis=1, keepdims=True)], axis=1)
    return pose, rng.normal(size=(count, 3)), rng.normal(size=(count, 6)), rng.normal(size=(count, 6))


# Twists and wrenches


@given(names, names, names, poses, vectors, vectors, spatials)
def test_conversions_chain_and_return(a, b, c, pose, com, point, twist):
    """Going a -> b -> c is going a -> c, and a -> b -> a changes nothing; twists and wrenches alike."""
    at = dict(pose=pose, com=com, point=point)
    for convert in (cv.convert_twist, cv.convert_wrench):
        step = convert(twist, a, b, **at)
        close(convert(step, b, a, **at), twist, 1e4)
        close(convert(step, b, c, **at), convert(twist, a, c, **at), 1e4)


@given(names, names, poses, vectors, vectors, spatials, spatials)
def test_power_is_the_same_in_every_convention(a, b, pose, com, point, twist, wrench):
    """A wrench's power on a twist does not depend on how both are written."""
    at = dict(pose=pose, com=com, point=point)
    close(
        cv.power(cv.convert_twist(twist, a, b, **at), cv.convert_wrench(wrench, a, b, **at)),
        cv.power(twist, wrench),
        1e5,
    )


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_matrices_are_the_conversions_and_dual(a, b):
    """The 6x6 matrices multiply to what the functions return, and the wrench's is the inverse transpose."""
    pose, com, twist, wrench = random_bodies(1, 5)
    at = dict(pose=pose, com=com, point=POINT)
    V, F = cv.twist_matrix(a, b, **at), cv.wrench_matrix(a, b, **at)
    close(np.einsum("...ij,...j->...i", V, twist), cv.convert_twist(twist, a, b, **at))
    close(np.einsum("...ij,...j->...i", F, wrench), cv.convert_wrench(wrench, a, b, **at))
    close(np.swapaxes(V, -1, -2) @ F, np.broadcast_to(np.eye(6), np.broadcast_shapes(V.shape, F.shape)))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_batches_are_rows(a, b):
    """A batch with leading axes gives what its rows give one at a time; one pose serves many twists."""
    pose, com, twist, _ = random_bodies(2, 6)
    whole = cv.convert_twist(
        twist.reshape(2, 3, 6), a, b, pose=pose.reshape(2, 3, 7), com=com.reshape(2, 3, 3), point=POINT
    )
    rows = [cv.convert_twist(twist[i], a, b, pose=pose[i], com=com[i], point=POINT) for i in range(6)]
    np.testing.assert_array_equal(whole.reshape(6, 6), rows)
    shared = cv.convert_twist(twist, a, b, pose=pose[0], com=com[0], point=POINT)
    np.testing.assert_array_equal(shared[3], cv.convert_twist(twist[3], a, b, pose=pose[0], com=com[0], point=POINT))


@given(poses, vectors, spatials)
def test_agrees_with_the_boundary_of_the_solver(pose, com, x):
    """newton <-> sap is the solver's own conversion with r = R com."""
    r = Rotation.from_quat(pose[3:]).apply(com)
    at = dict(pose=pose, com=com)
    close(cv.convert_twist(x, "newton", "sap", **at), order.velocity_to_sap(x, r), 1e3)
    close(cv.convert_twist(x, "sap", "newton", **at), order.velocity_to_public(x, r), 1e3)
    close(cv.convert_wrench(x, "newton", "sap", **at), order.force_to_sap(x, r), 1e3)
    close(cv.convert_wrench(x, "sap", "newton", **at), order.force_to_public(x, r), 1e3)


@pytest.mark.parametrize("name", NAMES)
def test_points_of_a_moving_body(name):
    """The linear part is the velocity, by finite differences, of the point that the table names."""
    pose, com, twist, _ = (x[0] for x in random_bodies(3, 1))
    entry = cv.CONVENTIONS[name]
    R = Rotation.from_quat(pose[3:])
    point = {"com": R.apply(com), "origin": np.zeros(3), "world": -pose[:3], "given": POINT - pose[:3]}[entry.point]
    point = R.inv().apply(point)
    v, w = twist[:3], twist[3:]  # of the COM, in world axes

    def position(h):
        turned = Rotation.from_rotvec(h * w) * R
        return pose[:3] + R.apply(com) + h * v + turned.apply(point - com)

    rate = (position(1e-5) - position(-1e-5)) / 2e-5
    got_v, got_w = cv.split(cv.convert_twist(twist, "newton", name, pose=pose, com=com, point=POINT), entry.order)
    np.testing.assert_allclose(R.apply(got_v) if entry.linear_axes == "body" else got_v, rate, atol=1e-8)
    close(R.apply(got_w) if entry.angular_axes == "body" else got_w, w)


@given(rotations, vectors, spatials)
def test_modern_robotics_body_and_spatial_twist(rotation, p, body_twist):
    """V_s = Ad_T V_b: w_s = R w_b and v_s = R v_b - w_s x p; the COM plays no part."""
    pose = np.concatenate([p, rotation.as_quat()])
    got = cv.convert_twist(body_twist, "modern_robotics_body", "modern_robotics_spatial", pose=pose)
    w_s = rotation.apply(body_twist[:3])
    close(got, np.concatenate([w_s, rotation.apply(body_twist[3:]) + np.cross(p, w_s)]), 1e3)


@given(spatials, spatials, vectors, orders)
def test_shifts_keep_power_and_add_up(twist, wrench, r, order):
    """Two shifts are one by the sum, and shifted pairs have the same power."""
    V, F = cv.shift_twist(twist, r, order), cv.shift_wrench(wrench, r, order)
    close(cv.power(V, F), cv.power(twist, wrench), 1e5)
    close(cv.shift_twist(V, -r, order), twist, 1e3)
    close(cv.shift_wrench(F, 2.0 * r, order), cv.shift_wrench(wrench, 3.0 * r, order), 1e3)


def test_force_off_the_origin():
    """A force 1 N along y through a point 2 m out on x has the moment 2 N m about z at the origin."""
    wrench = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    close(cv.shift_wrench(wrench, [-2.0, 0.0, 0.0]), [0.0, 1.0, 0.0, 0.0, 0.0, 2.0])


def test_pose_and_com_only_where_they_matter():
    """Conversions that need neither take neither; the others say what is missing."""
    x = np.arange(6.0)
    np.testing.assert_array_equal(cv.convert_twist(x, "newton", "isaac"), x)
    np.testing.assert_array_equal(cv.convert_wrench(x, "sap", "drake"), x)
    np.testing.assert_array_equal(cv.convert_twist(x, "modern_robotics_body", "modern_robotics_body"), x)
    with pytest.raises(ValueError, match="point="):
        cv.convert_twist(x, "sap", "mujoco_com", pose=np.ones(7))
    with pytest.raises(ValueError, match="no code"):
        _ = cv.CONVENTIONS["mujoco_com"].code
    upright = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    np.testing.assert_array_equal(cv.convert_twist(x, "sap", "mujoco", pose=upright), [3.0, 4.0, 5.0, 0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="pose="):
        cv.convert_twist(x, "newton", "sap")
    with pytest.raises(ValueError, match="com="):
        cv.convert_twist(x, "newton", "sap", pose=upright)


def test_names_and_shapes_are_checked():
    """Unknown names come with a suggestion; wrong shapes are refused."""
    with pytest.raises(ValueError, match="'newton'"):
        cv.convert_twist(np.zeros(6), "newtom", "sap")
    with pytest.raises(ValueError, match="wxyz"):
        cv.convert_quaternion(np.zeros(4), "wxyzz", "newton")
    with pytest.raises(ValueError, match=r"\(\.\.\., 6\)"):
        cv.convert_twist(np.zeros(5), "newton", "sap")
    with pytest.raises(ValueError, match="point"):
        cv.Convention("linear", "centre")
    own = cv.Convention("angular", "com", "body", "body")
    pose, com, twist, _ = random_bodies(4, 3)
    there = cv.convert_twist(twist, "newton", own, pose=pose, com=com)
    close(cv.convert_twist(there, own, "newton", pose=pose, com=com), twist)


# Quaternions and up axes


@given(rotations, st.sampled_from(tuple(cv.QUATERNION_ORDERS)), st.sampled_from(tuple(cv.QUATERNION_ORDERS)))
def test_quaternions_mean_the_same_rotation(rotation, a, b):
    """Reordering keeps the rotation and returns exactly; matrices agree with SciPy's."""
    q = cv.convert_quaternion(rotation.as_quat(), "scipy", a)
    there = cv.convert_quaternion(q, a, b)
    np.testing.assert_array_equal(cv.convert_quaternion(there, b, a), q)
    close(cv.rotation_matrix(there, b), rotation.as_matrix())
    close(cv.rotation_matrix(cv.quaternion_from_matrix(rotation.as_matrix(), b), b), rotation.as_matrix())


def test_quaternion_orders():
    """The identity has its one where each system keeps the scalar."""
    assert cv.convert_quaternion([0.0, 0.0, 0.0, 1.0], "newton", "mujoco").tolist() == [1.0, 0.0, 0.0, 0.0]
    assert cv.convert_quaternion([1.0, 2.0, 3.0, 4.0], "isaac", "newton").tolist() == [2.0, 3.0, 4.0, 1.0]
    assert cv.convert_quaternion([1.0, 2.0, 3.0, 4.0], "isaac_lab_3", "newton").tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(ValueError, match="zero"):
        cv.rotation_matrix(np.zeros(4))


@given(poses, names, names)
def test_poses_return(pose, a, b):
    """Coordinates of free joints return exactly; Drake's begin with the scalar, MuJoCo's with the position."""
    there = cv.convert_pose(pose, "newton", a)
    np.testing.assert_array_equal(cv.convert_pose(cv.convert_pose(there, a, b), b, "newton"), pose)
    order = {"drake": [6, 3, 4, 5, 0, 1, 2], "mujoco": [0, 1, 2, 6, 3, 4, 5]}
    for name, columns in order.items():
        np.testing.assert_array_equal(cv.convert_pose(pose, "newton", name), pose[columns])


@pytest.mark.parametrize("axis", range(3))
def test_half_turns_keep_their_axis(axis):
    """Matrices of half turns, where the scalar part is zero, still give their quaternion."""
    q = np.zeros(4)
    q[axis] = 1.0
    close(np.abs(cv.quaternion_from_matrix(cv.rotation_matrix(q))), q)


@pytest.mark.parametrize("source", ["X", "Y", "Z"])
@pytest.mark.parametrize("target", ["X", "Y", "Z"])
def test_up_axes(source, target):
    """Up becomes up, back is the inverse, cross products survive, and poses move with their points."""
    up = dict(zip("XYZ", np.eye(3), strict=True))
    np.testing.assert_array_equal(cv.convert_up_axis(up[source], source, target), up[target])
    pose, com, twist, _ = random_bodies(5, 4)
    for value in (pose, com, twist, pose[:, 3:]):
        close(cv.convert_up_axis(cv.convert_up_axis(value, source, target), target, source), value)
    turned = cv.convert_up_axis(pose, source, target)
    point = pose[:, :3] + np.einsum("nij,nj->ni", cv.rotation_matrix(pose[:, 3:]), com)
    moved = turned[:, :3] + np.einsum("nij,nj->ni", cv.rotation_matrix(turned[:, 3:]), com)
    close(cv.convert_up_axis(point, source, target), moved)
    cross = np.cross(twist[:, :3], twist[:, 3:])
    spatial = cv.convert_up_axis(twist, source, target)
    close(cv.convert_up_axis(cross, source, target), np.cross(spatial[:, :3], spatial[:, 3:]))


def test_up_axis_of_usd_is_about_x():
    """Y-up to Z-up is a quarter turn about X; names of systems and Newton's axes serve as axes."""
    import newton

    close(cv.up_axis_quaternion("usd", "newton"), [np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
    close(cv.up_axis_quaternion(newton.Axis.Z, newton.Axis.Y), [-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
    with pytest.raises(ValueError, match="3, 4, 6 or 7"):
        cv.convert_up_axis(np.zeros(5), "Y", "Z")


# Pluecker transforms


def chain(form, pose_ab, pose_bc):
    """Return the transform a -> c of the poses of b in a and of c in b, by a product in the form's own order."""
    ab, bc = cv.Pluecker.from_pose(pose_ab, form), cv.Pluecker.from_pose(pose_bc, form)
    return ab, bc, (bc @ ab if form == "plx" else ab @ bc)


@given(poses, poses, spatials, spatials, forms, orders)
def test_pluecker_transforms_compose_and_keep_power(first, second, m, f, form, order):
    """A product is one transform after the other, for motions and forces, and power does not change."""
    ab, bc, ac = chain(form, first, second)
    close(ac.motion(m, order), bc.motion(ab.motion(m, order), order), 1e4)
    close(ac.force(f, order), bc.force(ab.force(f, order), order), 1e4)
    close(ab.motion(m, order) @ ab.force(f, order), m @ f, 1e5)


@given(poses, spatials, forms, orders)
def test_pluecker_inverse(pose, m, form, order):
    """The inverse undoes the transform, and X @ inverse is the identity from both sides."""
    X = cv.Pluecker.from_pose(pose, form)
    close(X.inverse().motion(X.motion(m, order), order), m, 1e3)
    close(X.inverse().force(X.force(m, order), order), m, 1e3)
    for one in (X @ X.inverse(), X.inverse() @ X):
        close(one.E, np.eye(3))
        close(one.r, np.zeros(3), 1e2)


@given(poses, spatials, forms, orders)
def test_pluecker_matrices(pose, m, form, order):
    """The matrices do what motion and force do; X* = inv(X).T; layouts differ by exchanging halves."""
    X = cv.Pluecker.from_pose(pose, form)
    close(X.motion_matrix(order) @ m, X.motion(m, order), 1e3)
    close(X.force_matrix(order) @ m, X.force(m, order), 1e3)
    close(X.force_matrix(order), np.linalg.inv(X.motion_matrix(order)).T, 1e2)
    other = ORDERS[1 - ORDERS.index(order)]
    swapped = np.roll(np.arange(6), 3)
    np.testing.assert_array_equal(X.motion_matrix(other), X.motion_matrix(order)[np.ix_(swapped, swapped)])


@given(poses, poses)
def test_pluecker_forms_are_the_same_transform(first, second):
    """Both forms hold the same pose, and their products are each other's in reverse order."""
    _, _, left = chain("plx", first, second)
    _, _, right = chain("plxb", first, second)
    close(left.as_form("plxb").E, right.E)
    close(left.r, right.r, 1e2)
    close(left.motion_matrix(), right.motion_matrix(), 1e2)
    R = Rotation.from_quat(first[3:])
    close(right.pose[:3], first[:3] + R.apply(second[:3]), 1e2)
    close(cv.rotation_matrix(right.pose[3:]), (R * Rotation.from_quat(second[3:])).as_matrix())
    with pytest.raises(ValueError, match="as_form"):
        left @ right


@given(poses, spatials)
def test_pluecker_is_the_change_to_a_body_twist(pose, spatial):
    """The transform world -> body takes Modern Robotics' spatial twist to the body twist, and wrenches likewise."""
    X = cv.Pluecker.from_pose(pose)
    pair = ("modern_robotics_spatial", "modern_robotics_body")
    close(X.motion(spatial), cv.convert_twist(spatial, *pair, pose=pose), 1e3)
    close(X.force(spatial), cv.convert_wrench(spatial, *pair, pose=pose), 1e3)


def test_pluecker_batches():
    """Leading axes broadcast through products, applications and matrices; bad shapes are refused."""
    pose, _, m, _ = random_bodies(6, 4)
    X = cv.Pluecker.from_pose(pose)
    close((X @ X.inverse()).motion(m), m)
    close(np.einsum("nij,nj->ni", X.motion_matrix(), m), X.motion(m))
    close(X.motion(m)[2], cv.Pluecker.from_pose(pose[2]).motion(m[2]))
    assert X.pose.shape == (4, 7)
    with pytest.raises(ValueError, match="shapes"):
        cv.Pluecker(np.eye(2), np.zeros(3))
    with pytest.raises(ValueError, match="form"):
        cv.Pluecker(np.eye(3), np.zeros(3), "px")


# Warp


@wp.kernel
def convert_kernel(
    x: wp.array2d[wp.spatial_vectord],
    codes: wp.array2d[int],
    pose: wp.array[wp.transformd],
    com: wp.array[wp.vec3d],
    twists: wp.array2d[wp.spatial_vectord],
    wrenches: wp.array2d[wp.spatial_vectord],
):
    """Convert every row's twist and wrench between every pair of conventions."""
    i, k = wp.tid()
    twists[i, k] = device.convert_twist(x[i, 0], codes[k, 0], codes[k, 1], pose[i], com[i])
    wrenches[i, k] = device.convert_wrench(x[i, 1], codes[k, 0], codes[k, 1], pose[i], com[i])


@wp.kernel
def pluecker_kernel(
    E: wp.array2d[wp.mat33d],
    r: wp.array2d[wp.vec3d],
    x: wp.array[wp.spatial_vectord],
    order: int,
    out: wp.array2d[wp.spatial_vectord],
):
    """Motion and force through X1, X1 X2 and inverse X1, in both forms."""
    i = wp.tid()
    out[i, 0] = device.plx_motion(E[i, 0], r[i, 0], x[i], order)
    out[i, 1] = device.plx_force(E[i, 0], r[i, 0], x[i], order)
    out[i, 2] = device.plxb_motion(E[i, 0], r[i, 0], x[i], order)
    out[i, 3] = device.plxb_force(E[i, 0], r[i, 0], x[i], order)
    Ea, ra = device.plx_compose(E[i, 0], r[i, 0], E[i, 1], r[i, 1])
    out[i, 4] = device.plx_motion(Ea, ra, x[i], order)
    Eb, rb = device.plxb_compose(E[i, 0], r[i, 0], E[i, 1], r[i, 1])
    out[i, 5] = device.plxb_force(Eb, rb, x[i], order)
    Ec, rc = device.plx_inverse(E[i, 0], r[i, 0])
    out[i, 6] = device.plx_force(Ec, rc, x[i], order)
    Ed, rd = device.plxb_inverse(E[i, 0], r[i, 0])
    out[i, 7] = device.plxb_motion(Ed, rd, x[i], order)


@wp.kernel
def single_kernel(
    pose: wp.array[wp.transform],
    com: wp.array[wp.vec3],
    source: int,
    target: int,
    x: wp.array[wp.spatial_vector],
    q: wp.array[wp.vec4],
    out_x: wp.array[wp.spatial_vector],
    out_q: wp.array[wp.vec4],
):
    """The float32 forms on Newton's own array types, and both quaternion orders."""
    i = wp.tid()
    out_x[i] = device.convert_twist(x[i], source, target, pose[i], com[i])
    out_q[i] = device.xyzw_from_wxyz(q[i]) + 10.0 * device.wxyz_from_xyzw(q[i])


def test_warp_converts_like_numpy():
    """Every pair of conventions, twists and wrenches, in float64."""
    pose, com, twist, wrench = random_bodies(7, 3)
    codes = np.array([[cv.CONVENTIONS[a].code, cv.CONVENTIONS[b].code] for a, b in DEVICE_PAIRS], dtype=np.int32)
    inputs = [
        wp.array(np.stack([twist, wrench], axis=1), dtype=wp.spatial_vectord),
        wp.array(codes),
        wp.array(pose, dtype=wp.transformd),
        wp.array(com, dtype=wp.vec3d),
    ]
    outputs = [wp.zeros((3, len(DEVICE_PAIRS)), dtype=wp.spatial_vectord) for _ in range(2)]
    wp.launch(convert_kernel, (3, len(DEVICE_PAIRS)), inputs, outputs)
    for k, (a, b) in enumerate(DEVICE_PAIRS):
        close(outputs[0].numpy()[:, k], cv.convert_twist(twist, a, b, pose=pose, com=com), 10.0)
        close(outputs[1].numpy()[:, k], cv.convert_wrench(wrench, a, b, pose=pose, com=com), 10.0)


@pytest.mark.parametrize("order", ORDERS)
def test_warp_pluecker_is_like_numpy(order):
    """Applied, composed and inverted transforms in both forms and both layouts."""
    pose, _, x, _ = random_bodies(8, 8)
    E, r = cv.rotation_matrix(pose[:, 3:]).reshape(4, 2, 3, 3), pose[:, :3].reshape(4, 2, 3)
    out = wp.zeros((4, 8), dtype=wp.spatial_vectord)
    inputs = [wp.array(E, dtype=wp.mat33d), wp.array(r, dtype=wp.vec3d), wp.array(x[:4], dtype=wp.spatial_vectord)]
    wp.launch(pluecker_kernel, 4, [*inputs, ORDERS.index(order)], [out])
    left = [cv.Pluecker(E[:, k], r[:, k], "plx") for k in range(2)]
    right = [cv.Pluecker(E[:, k], r[:, k], "plxb") for k in range(2)]
    x = x[:4]
    expected = [
        left[0].motion(x, order),
        left[0].force(x, order),
        right[0].motion(x, order),
        right[0].force(x, order),
        (left[0] @ left[1]).motion(x, order),
        (right[0] @ right[1]).force(x, order),
        left[0].inverse().force(x, order),
        right[0].inverse().motion(x, order),
    ]
    close(out.numpy(), np.stack(expected, axis=1), 10.0)


def test_warp_in_single_precision():
    """The same functions serve Newton's float32 arrays."""
    pose, com, twist, _ = (np.float32(x) for x in random_bodies(9, 5))
    q = np.arange(20, dtype=np.float32).reshape(5, 4)
    out_x, out_q = wp.zeros(5, dtype=wp.spatial_vector), wp.zeros(5, dtype=wp.vec4)
    codes = [cv.CONVENTIONS[name].code for name in ("newton", "mujoco")]
    inputs = [wp.array(pose, dtype=wp.transform), wp.array(com, dtype=wp.vec3), *codes]
    inputs += [wp.array(twist, dtype=wp.spatial_vector), wp.array(q, dtype=wp.vec4)]
    wp.launch(single_kernel, 5, inputs, [out_x, out_q])
    expected = cv.convert_twist(twist, "newton", "mujoco", pose=pose, com=com)
    np.testing.assert_allclose(out_x.numpy(), expected, atol=1e-5)
    both = cv.convert_quaternion(q, "wxyz", "xyzw") + 10.0 * cv.convert_quaternion(q, "xyzw", "wxyz")
    np.testing.assert_array_equal(out_q.numpy(), both)


# The engines themselves


@pytest.fixture(scope="module")
def free_body():
    """A MuJoCo model of one free body with an offset COM and turned inertial axes, and its data."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string("""
        <mujoco><option gravity="0 0 0"/><worldbody><body name="b"><freejoint/>
        <inertial pos="0.3 -0.2 0.5" quat="0.5 0.1 -0.3 0.8" mass="2" diaginertia="0.1 0.2 0.25"/>
        </body></worldbody></mujoco>""")
    return mujoco, model, mujoco.MjData(model)


def set_free_body(free_body, seed):
    """Put the MuJoCo body into a random pose with random qvel; return pose (xyzw), com and the random numbers."""
    mujoco, model, data = free_body
    pose, _, twist, wrench = (x[0] for x in random_bodies(seed, 1))
    data.qpos[:3] = pose[:3]
    data.qpos[3:] = cv.convert_quaternion(pose[3:], "newton", "mujoco")
    data.qvel[:] = twist
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_comVel(model, data)
    return pose, model.body_ipos[1].copy(), twist, wrench


@pytest.mark.parametrize("seed", range(5))
def test_mujoco_velocities(free_body, seed):
    """qvel converted to newton and drake is what MuJoCo reports at the COM, the origin and in body axes."""
    mujoco, model, data = free_body
    pose, com, qvel, _ = set_free_body(free_body, seed)
    at = dict(pose=pose, com=com)
    newton_twist = cv.convert_twist(qvel, "mujoco", "newton", **at)
    close(np.concatenate([newton_twist[3:], newton_twist[:3]]), data.cvel[1])  # the tree's COM is the body's
    for kind, local, target in (
        (mujoco.mjtObj.mjOBJ_XBODY, 0, "drake"),
        (mujoco.mjtObj.mjOBJ_XBODY, 1, "modern_robotics_body"),
        (mujoco.mjtObj.mjOBJ_BODY, 0, cv.Convention("angular", "com")),
    ):
        got = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, kind, 1, got, local)
        close(cv.convert_twist(qvel, "mujoco", target, **at), got)


def test_mujoco_com_based_frame():
    """cvel of every body of a chain, which MuJoCo writes about the COM of the tree, is the mujoco_com convention."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string("""
        <mujoco><worldbody><body><freejoint/><inertial pos="0.3 -0.2 0.5" mass="2" diaginertia="0.1 0.2 0.25"/>
        <body pos="1 0 0"><joint axis="0 1 0"/><inertial pos="0 0.4 0" mass="1" diaginertia="0.1 0.2 0.25"/></body>
        </body></worldbody></mujoco>""")
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    data.qpos[:], data.qvel[:] = rng.normal(size=8), rng.normal(size=7)
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_comVel(model, data)
    pose = cv.convert_pose(np.concatenate([data.xpos, data.xquat], axis=1), "mujoco", "newton")[1:]
    for body in (1, 2):
        got = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, got, 0)
        at = dict(pose=pose[body - 1], com=model.body_ipos[body], point=data.subtree_com[1])
        close(cv.convert_twist(data.cvel[body], "mujoco_com", "drake", **at), got)
        newton_twist = cv.convert_twist(data.cvel[body], "mujoco_com", "newton", **at)
        close(cv.convert_twist(newton_twist, "newton", "mujoco_com", **at), data.cvel[body])


@pytest.mark.parametrize("seed", range(5))
def test_mujoco_forces(free_body, seed):
    """A wrench at the COM in world axes becomes the generalised force that MuJoCo makes of it."""
    mujoco, model, data = free_body
    pose, com, _, wrench = set_free_body(free_body, seed)
    qfrc = np.zeros(6)
    mujoco.mj_applyFT(model, data, wrench[:3], wrench[3:], data.xipos[1], 1, qfrc)
    close(cv.convert_wrench(wrench, "newton", "mujoco", pose=pose, com=com), qfrc)


def test_mujoco_accelerates_as_converted(free_body):
    """From rest, xfrc_applied and the converted qfrc_applied accelerate the body alike."""
    mujoco, model, data = free_body
    pose, com, _, wrench = set_free_body(free_body, 11)
    accelerations = []
    for generalised in (False, True):
        data.qvel[:] = 0.0
        data.xfrc_applied[1] = 0.0 if generalised else wrench
        data.qfrc_applied[:] = cv.convert_wrench(wrench, "newton", "mujoco", pose=pose, com=com) if generalised else 0.0
        mujoco.mj_forward(model, data)
        accelerations.append(data.qacc.copy())
    data.xfrc_applied[1] = data.qfrc_applied[:] = 0.0
    np.testing.assert_allclose(accelerations[0], accelerations[1], atol=1e-9)


@pytest.mark.skipif(find_spec("pydrake") is None, reason="needs drake")
@pytest.mark.parametrize("seed", range(3))
def test_drake_shifts_and_turns(seed):
    """Drake's own SpatialVelocity and SpatialForce shift, turn and multiply as here."""
    from pydrake.math import RotationMatrix
    from pydrake.multibody.math import SpatialForce, SpatialVelocity

    pose, com, twist, wrench = (x[0] for x in random_bodies(seed, 1))
    V, F = SpatialVelocity(twist), SpatialForce(wrench)
    close(cv.shift_twist(twist, com, "angular"), V.Shift(com).get_coeffs())
    close(cv.shift_wrench(wrench, com, "angular"), F.Shift(com).get_coeffs())
    close(cv.power(twist, wrench), V.dot(F))
    R = RotationMatrix(cv.rotation_matrix(pose[3:]))
    at = dict(pose=pose, com=com)
    V_com = V.Shift(R @ com).get_coeffs()
    close(cv.convert_twist(twist, "drake", "newton", **at), np.concatenate([V_com[3:], V_com[:3]]))
    F_com = F.Shift(R @ com).get_coeffs()
    close(cv.convert_wrench(wrench, "drake", "newton", **at), np.concatenate([F_com[3:], F_com[:3]]))
    close(cv.convert_twist(twist, "drake", "modern_robotics_body", **at), V.Rotate(R.inverse()).get_coeffs())


@pytest.mark.skipif(find_spec("pydrake") is None, reason="needs drake")
@settings(max_examples=20)
@given(poses, spatials)
def test_drake_plant(pose, twist):
    """A floating body of a MultibodyPlant has the drake twist as velocities and the newton one at its COM."""
    plant, context, body = drake_plant()
    from pydrake.multibody.math import SpatialVelocity

    plant.SetPositions(context, cv.convert_pose(pose, "newton", "drake"))
    plant.SetFreeBodySpatialVelocity(context, body, SpatialVelocity(twist))
    close(plant.GetVelocities(context), twist)
    r_com = body.CalcCenterOfMassInBodyFrame(context)
    at_com = body.CalcCenterOfMassTranslationalVelocityInWorld(context)
    close(cv.convert_twist(twist, "drake", "newton", pose=pose, com=r_com)[:3], at_com, 1e3)


def drake_plant():
    """Return a Drake plant with one floating body whose COM is off its origin, a context and the body."""
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import SpatialInertia, UnitInertia

    plant = MultibodyPlant(0.0)
    com = np.array([0.3, -0.2, 0.5])
    inertia = UnitInertia.SolidSphere(1.0).ShiftFromCenterOfMass(com)
    body = plant.AddRigidBody("body", SpatialInertia(2.0, com, inertia))
    plant.Finalize()
    return plant, plant.CreateDefaultContext(), body
