"""The feature table is true: its tests exist, its page is up to date, and what it refuses is refused."""

import ast
import sys
from pathlib import Path

import newton
import numpy as np
import pytest
from features import FEATURES, NO, PEERS
from rig import Rig, link, material, weightless

ROOT = Path(__file__).parents[1]
ROWS = [row for rows in FEATURES.values() for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_names_a_test(row):
    """Each row names an existing test, describes every peer, and a row that says no says what happens."""
    module, _, name = row.test.partition("::")
    tree = ast.parse((ROOT / "tests" / f"{module}.py").read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len(row.peers) == len(PEERS)
    assert set(row.peers) <= set("ynp?")
    if row.sap == NO:
        assert "Error`" in row.note or "no exception" in row.note


def test_page_is_up_to_date():
    """docs/features.md is what docs/make_features.py writes."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_features import page
    finally:
        sys.path.pop(0)
    assert (ROOT / "docs" / "features.md").read_text(encoding="utf-8") == page()


def test_reduced_contacts_are_refused(monkeypatch):
    """Contacts that were thinned per body pair are not taken for the whole set."""
    rig = two_balls()
    monkeypatch.setattr(newton.Contacts, "rigid_contact_body_pair_reduced", property(lambda self: True))
    with pytest.raises(ValueError, match="body-pair"):
        rig.solver.step(rig.state, rig.next, None, rig.contacts, 0.01)


def two_balls(**cfg):
    """Two balls that touch, pushed along each other."""
    builder = weightless()
    shape = material(friction=0.5, gap=0.05)
    for name, value in cfg.items():
        setattr(shape, name, value)
    for _ in range(2):
        body = link(builder, 1.0, 1e-3)
        builder.add_shape_sphere(body, radius=0.05, cfg=shape)
        builder.add_articulation([builder.add_joint_free(body)])
    return Rig(builder, 0.005, q=[0, 0, 0, 0, 0, 0, 1, 0.1, 0, 0, 0, 0, 0, 1], v=[1, 0.5, 0, 0, 0, 0, *np.zeros(6)])


def test_kf_and_ka_change_nothing():
    """The viscous slope of friction and the range of adhesion have no part in the contact laws."""
    np.testing.assert_array_equal(two_balls().run(10).q, two_balls(kf=5.0, ka=0.1).run(10).q)
