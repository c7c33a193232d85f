"""Gradients of a step by the implicit function theorem, laid on Warp's tape.

The velocity ``v`` at the end of a step solves ``m(v, theta) = 0``: the momentum balance, of anything ``theta`` that the
step reads. With a loss ``L``::

    S = dm/dv        S' u = dL/dv        dL/dtheta = - d(u' m)/dtheta

``u' m`` is a number, the virtual power of all impulses at the virtual velocity ``u``. Warp differentiates that number
(``virtual_power``), not the minimisation that found ``v``; ``sensitivity`` solves for ``u``; ``recording`` lays both on
the tape, between the stages before (kinematics) and after it (integration, body states).
"""
