"""Telling a CPU's compiler that the arrays of a bundle are packed and not indexed from their end.

Warp's arrays may be strided, and a negative index counts from the end. Neither is so for arrays that the solver makes,
but inside a bundle the compiler cannot know: every access loads a stride and tests a sign. Warp's debug mode checks indices
against lengths, and there nothing is told.
"""

import warp as wp

from ..workspace import ContactPool, CouplerPool, LargeGroups, Motion, Pools, Problem, Tree

wp.set_module_options({"enable_backward": False})


def _arrays(bundle_type, path: str = "bundle"):
    """Yield a C expression for every array of a bundle, nested ones included."""
    for name, variable in bundle_type.vars.items():
        if hasattr(variable.type, "dtype"):
            yield f"{path}.{name}"
        elif hasattr(variable.type, "vars"):
            yield from _arrays(variable.type, f"{path}.{name}")


def packing(name: str, bundle_type):
    """Return the device function ``name(bundle)``; a kernel that calls it can no longer ask an array's shape."""

    def pack(bundle: wp.ref[bundle_type]): ...

    pack.__qualname__ = name  # by which Warp tells functions apart
    return wp.func_native(f"""
#if !defined(__CUDA_ARCH__) && defined(NDEBUG)
    const auto tell = [](auto& x) {{ x.strides[0] = sizeof(*x.data); x.shape.dims[0] = 0; }};
    {" ".join(f"tell({array});" for array in _arrays(bundle_type))}
#endif
""")(pack)


pack_tree = packing("pack_tree", Tree)
pack_motion = packing("pack_motion", Motion)
pack_contacts = packing("pack_contacts", ContactPool)
pack_couplers = packing("pack_couplers", CouplerPool)
pack_pools = packing("pack_pools", Pools)
pack_problem = packing("pack_problem", Problem)
pack_large_groups = packing("pack_large_groups", LargeGroups)
