"""Paths of MuJoCo's spatial tendons: straight segments between sites, each with its share of the length.

A segment's length grows at ``F . (V_B - V_A)``: its force is one line through both sites, and conserves momentum.
"""

import warp as wp

from ..multibody.spatial import motion
from ..workspace import CouplerPool, Motion, Problem, Tendons, Tree
from .coupler_pool import SHORT_TIME, Anchor, add_motion, anchor_of, moved, relative_velocity, steady_acceleration

wp.set_module_options({"enable_backward": False})

SHORTEST = wp.constant(wp.float64(1.0e-9))
"""Length [m] below which a segment has no direction."""


@wp.struct
class Segment:
    """A straight piece of a path."""

    a: Anchor
    b: Anchor
    length: wp.float64
    F: wp.spatial_vectord  # covector of the length's rate, with the segment's share; 0 where it has no direction


@wp.func
def site_anchor(tree: Tree, m: Motion, tendons: Tendons, shape: int):
    """A site on its body, or in the world."""
    return anchor_of(tree, m, tendons.shape_body[shape], tendons.shape_transform[shape])


@wp.func
def segment_between(a: Anchor, b: Anchor, share: wp.float64):
    """The segment from one site to another."""
    out = Segment()
    out.a = a
    out.b = b
    d = b.position - a.position
    out.length = wp.length(d)
    if not (out.length <= SHORTEST):
        u = share * d / out.length
        out.F = motion(wp.cross(b.position, u), u)
    return out


@wp.func
def read_segment(tree: Tree, m: Motion, tendons: Tendons, s: int):
    """A segment where the bodies are."""
    a = site_anchor(tree, m, tendons, tendons.site_a[s])
    b = site_anchor(tree, m, tendons, tendons.site_b[s])
    return segment_between(a, b, wp.float64(tendons.share[s]))


@wp.func
def path_length(tree: Tree, m: Motion, tendons: Tendons, t: int):
    """Length of a path; 0 for a tendon that has none."""
    length = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        length += wp.float64(tendons.share[s]) * read_segment(tree, m, tendons, s).length
    return length


@wp.func
def path_rate(tree: Tree, m: Motion, tendons: Tendons, t: int):
    """Rate of a path's length."""
    rate = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        segment = read_segment(tree, m, tendons, s)
        rate += wp.dot(segment.F, relative_velocity(m, segment.a, segment.b))
    return rate


@wp.func
def path_acceleration(tree: Tree, m: Motion, tendons: Tendons, t: int):
    """Acceleration of a path's length while all dofs keep their velocity."""
    total = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        segment = read_segment(tree, m, tendons, s)
        share = wp.float64(tendons.share[s])
        change = wp.spatial_vectord()
        times = int(2)  # no constant: the loop is not to be unrolled
        for side in range(times):
            time = wp.float64(1 - 2 * side) * SHORT_TIME
            there = segment_between(moved(m, segment.a, time), moved(m, segment.b, time), share)
            change = change + wp.float64(1 - 2 * side) * there.F
        total += steady_acceleration(m, segment.a, segment.b, segment.F, change)
    return total


@wp.func
def merge_terms(pool: CouplerPool, row: int, kept: int):
    """Fold the terms of a row beyond the first ones into those of the same unknown."""
    first = row * pool.stride
    last = first + pool.support[row]
    end = first + kept
    for s in range(first + kept, last):
        into = end
        for k in range(first, end):
            if pool.unknown[k] == pool.unknown[s]:
                into = k
        if into == end:
            pool.unknown[end] = pool.unknown[s]
            pool.J[end] = pool.J[s]
            end += 1
        else:
            pool.J[into] = pool.J[into] + pool.J[s]
    pool.support[row] = end - first


@wp.func
def add_path(
    tree: Tree, tendons: Tendons, m: Motion, pool: CouplerPool, problem: Problem, row: int, t: int, scale: wp.float64
):
    """Add the rate of a path's length to a row; returns the row's w as :func:`.coupler_pool.add_motion` does."""
    most = wp.float64(0.0)
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        segment = read_segment(tree, m, tendons, s)
        kept = pool.support[row]
        a = segment.a.link
        b = segment.b.link
        most += add_motion(tree, m, pool, problem, row, a, b, scale * segment.F, segment.b.position)
        merge_terms(pool, row, kept)
    return most


@wp.func
def path_wrench(tree: Tree, m: Motion, tendons: Tendons, t: int, body: int):
    """Covector, about the world origin, by which a unit impulse along the length acts on a body."""
    total = wp.spatial_vectord()
    for s in range(tendons.segment_start[t], tendons.segment_start[t + 1]):
        F = read_segment(tree, m, tendons, s).F
        if tendons.shape_body[tendons.site_a[s]] == body:
            total = total - F
        if tendons.shape_body[tendons.site_b[s]] == body:
            total = total + F
    return total
