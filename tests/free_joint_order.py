"""NumPy's own transforms between Newton's order of a free joint and the solver's, for comparison (F 5)."""

import numpy as np

from newton_sap.conventions.pluecker import skew


def P_v(r) -> np.ndarray:
    """Return the velocity transform (6, 6) from public to sap order for ``r = r_OC`` [m]."""
    zero, eye = np.zeros((3, 3)), np.eye(3)
    return np.block([[zero, eye], [eye, skew(r)]])


def P_f(r) -> np.ndarray:
    """Return the force transform (6, 6) from public to sap order; equals ``inv(P_v(r)).T``."""
    zero, eye = np.zeros((3, 3)), np.eye(3)
    return np.block([[skew(r), eye], [eye, zero]])


def velocity_to_sap(u_public, r_OC) -> np.ndarray:
    """Convert ``[v_C, w]`` (6,) to ``[w, v_O]``; [m/s], [rad/s], all in one frame."""
    return P_v(r_OC) @ np.asarray(u_public, dtype=np.float64)


def velocity_to_public(u_sap, r_OC) -> np.ndarray:
    """Convert ``[w, v_O]`` (6,) to ``[v_C, w]``."""
    return P_f(r_OC).T @ np.asarray(u_sap, dtype=np.float64)


def force_to_sap(g_public, r_OC) -> np.ndarray:
    """Convert ``[f, tau_C]`` (6,) to ``[tau_O, f]``; [N], [N m], all in one frame."""
    return P_f(r_OC) @ np.asarray(g_public, dtype=np.float64)


def force_to_public(g_sap, r_OC) -> np.ndarray:
    """Convert ``[tau_O, f]`` (6,) to ``[f, tau_C]``."""
    return P_v(r_OC).T @ np.asarray(g_sap, dtype=np.float64)
