"""The contract checks: SolverSAP passes all of them, and each finds the solver that was broken for it."""

import functools
import inspect
import subprocess
import sys
import unittest
from pathlib import Path

import broken_worlds  # noqa: F401, for the solvers it adds to BROKEN
import newton
import pytest
import warp as wp
from broken_solvers import BROKEN

from newton_sap import SolverSAP
from newton_sap.testing import (
    ContractViolation,
    NotClaimed,
    all_checks,
    contract_parameters,
    get_check,
    run_check,
    run_contract,
)

NAMES = [check.name for check in all_checks()]
OBSERVED = ("free_fall", "unknown_observable_refused", "legacy_contact_forces")


@pytest.mark.parametrize("check", contract_parameters(SolverSAP))
def test_sap_honours_the_contract(check):
    """SolverSAP passes every check, and there is none that it does not claim."""
    try:
        run_check(check, SolverSAP)
    except NotClaimed as reason:
        pytest.fail(f"no longer claimed: {reason}")


def test_every_check_has_a_broken_solver():
    """No check is without a solver that shows that it can fail."""
    assert set(BROKEN) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_check_finds_its_broken_solver(name):
    """The fault is found by its check and by none of the two that follow."""
    with pytest.raises(Exception) as caught:
        run_check(name, BROKEN[name])
    assert not isinstance(caught.value, NotClaimed), caught.value
    after = NAMES.index(name) + 1
    report = run_contract(BROKEN[name], only=(NAMES * 2)[after : after + 2])
    assert not report.failures, report.markdown()


class Unfinished(BROKEN["free_fall"]):
    """Has one fault, and one thing that it does not offer."""

    def update_contacts(self, contacts, state=None):
        """Say so."""
        raise NotImplementedError("use the observable")


def test_not_implemented_is_not_claimed():
    """NotImplementedError is an honest answer; pytest takes it for a skip."""
    with pytest.raises(NotClaimed, match="use the observable"):
        run_check("legacy_contact_forces", Unfinished)
    assert issubclass(NotClaimed, unittest.SkipTest)


def test_report_counts_and_shows():
    """A report tells passed, failed and not claimed apart, and its table holds every message in one line."""
    report = run_contract(Unfinished, only=OBSERVED)
    assert [result.status for result in report.results] == ["failed", "passed", "not claimed"]
    assert report.score == "1/2"
    assert report.solver == "Unfinished"
    table = report.markdown()
    assert "Unfinished: 1/2 passed, 1 not claimed" in table
    assert sum(line.startswith("| ") for line in table.splitlines()) == 1 + len(OBSERVED)
    assert "velocity: expected" in table


def test_any_error_is_a_failure():
    """A solver that raises something else fails, with the type of its error in the message."""

    class Falls(SolverSAP):
        def step(self, *args, **keywords):
            raise ZeroDivisionError("here")

    (result,) = run_contract(Falls, only=["free_fall"]).results
    assert (result.status, result.message) == ("failed", "ZeroDivisionError: here")


def test_options_factories_and_refinement():
    """Keywords reach the solver, a factory stands in for a class, and refinement divides the time step."""
    seen = []

    class Watched(SolverSAP):
        def step(self, state_in, state_out, control, contacts, dt, *, observables=None):
            seen.append((self.options.max_iterations, dt))
            super().step(state_in, state_out, control, contacts, dt, observables=observables)

    run_check("dt_may_change", Watched, refine=2, max_iterations=7)
    assert seen[0] == (7, 1.0 / 400.0)
    report = run_contract(functools.partial(Watched, max_iterations=9), only=["dt_may_change"])
    assert (seen[-1][0], report.solver, report.score) == (9, "Watched", "1/1")


def test_builders_can_be_prepared():
    """What ``prepare`` does to a builder arrives in the model."""
    models = []

    def make(model):
        models.append(model)
        return SolverSAP(model)

    run_check("contacts_none", make, prepare=SolverSAP.register_custom_attributes)
    assert all(hasattr(model, "sap") for model in models)


def test_known_failures_are_strict():
    """A known failure becomes a strict expected failure; names that do not exist are refused."""
    marked = {
        one.values[0].name: one.marks for one in contract_parameters(SolverSAP, known_failures={"free_fall": "x"})
    }
    (mark,) = marked.pop("free_fall")
    assert (mark.name, mark.kwargs) == ("xfail", {"reason": "x", "strict": True})
    assert not any(marked.values())
    with pytest.raises(KeyError, match="free_fal'"):
        contract_parameters(SolverSAP, known_failures={"free_fal": "x"})
    with pytest.raises(TypeError, match="solver class"):
        contract_parameters("SolverSAP")


@pytest.mark.parametrize("name", NAMES)
def test_check_says_what_it_asks(name):
    """Every check has a docstring and names something public in Newton or Warp that its question follows from."""
    check = get_check(name)
    assert len(check.asks) > 60
    root, *path = check.source.split(".")
    thing = {"newton": newton, "warp": wp}[root]
    for part in path:
        assert not part.startswith("_") or part == "__init__", check.source
        if inspect.isclass(thing) and not hasattr(thing, part):
            thing = instance_of(thing)
        thing = getattr(thing, part)


def instance_of(kind):
    """An object of one of Newton's classes, for attributes that only objects have."""
    builder = newton.ModelBuilder()
    builder.add_shape_sphere(builder.add_body(mass=1.0), radius=0.1)
    model = builder.finalize()
    made = {newton.State: model.state, newton.Control: model.control, newton.Model: lambda: model}
    made[newton.ModelBuilder] = lambda: builder
    made[newton.ModelBuilder.ShapeConfig] = newton.ModelBuilder.ShapeConfig
    made[newton.Contacts] = lambda: newton.CollisionPipeline(model).contacts()
    return made[kind]()


def test_violations_are_assertions():
    """A violation is an AssertionError with the numbers in it."""
    with pytest.raises(
        AssertionError, match=r"velocity after steps of two lengths: expected -0\.2\d+ within"
    ) as caught:
        run_check("dt_may_change", BROKEN["dt_may_change"])
    assert isinstance(caught.value, ContractViolation)


@pytest.fixture
def scores(monkeypatch):
    """The script that writes the page of scores, and the page."""
    docs = Path(__file__).parents[1] / "docs"
    monkeypatch.syspath_prepend(str(docs))
    import make_contract

    return make_contract, (docs / "contract.md").read_text(encoding="utf-8")


def test_page_of_scores_is_complete(scores):
    """docs/contract.md lists exactly the checks that exist, with what they ask, and SolverSAP passes all of them."""
    script, page = scores
    sap = script.column(page, "SAP")
    assert list(sap) == NAMES
    assert set(sap.values()) == {script.PASS}
    said = page.split("## What the checks ask")[1].split("\n## ")[0]
    assert said.strip() == script.asks_section(all_checks())
    for solver in ("MuJoCo", "Featherstone", "XPBD", "SemiImplicit", "Kamino", "Steel"):
        assert list(script.column(page, solver)) == NAMES


def test_scores_survive_crashes_and_hangs(scores, monkeypatch):
    """A check that kills its process, or gives no answer, is one cell; the checks after it are answered."""
    script, _ = scores
    child = """
import json, os, sys, time
for name in sys.argv[sys.argv.index("--checks") + 1:]:
    if name == "free_fall":
        os._exit(7)
    if name == "joint_force":
        time.sleep(100.0)
    print(json.dumps([name, "failed" if name == "dt_may_change" else "passed", "a reason"]), flush=True)
"""
    monkeypatch.setattr(script, "CHILD", ("-c", child))
    cells = script.run(script.SETTINGS[0], limit=2.0)
    assert list(cells) == NAMES
    odd = {name: (cell.status, cell.reason) for name, cell in cells.items() if cell.status != script.PASS}
    assert odd == {
        "dt_may_change": (script.FAIL, "a reason"),
        "free_fall": (script.CRASH, "the process ended with code 7"),
        "joint_force": (script.HANG, "no answer within 2 s"),
    }


def test_import_needs_no_pytest():
    """The checks can be run without pytest."""
    code = "import sys, newton_sap.testing; print('pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.splitlines()[-1] == "False", run.stdout
