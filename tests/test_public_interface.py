"""The public interface is what the snapshot beside this file says; a change of it is made on purpose.

``python tests/test_public_interface.py --write`` rewrites ``tests/public_interface.txt``.
"""

import dataclasses
import difflib
import enum
import importlib
import inspect
import math
import pathlib
import pkgutil
import re
import sys

import pytest

import newton_sap

SNAPSHOT = pathlib.Path(__file__).with_suffix("").with_name("public_interface.txt")
COMMAND = "python tests/test_public_interface.py --write"
INTERNAL = {
    "bodies",
    "boundary",
    "cli",
    "constraints",
    "coupling",
    "frame",
    "launches",
    "linalg",
    "mechanics",
    "minimizer",
    "multibody",
    "observables",
    "packed",
    "prefetch",
    "problem",
    "suggest",
    "swap_reset",
    "workspace",
}
"""Everything else below newton_sap is listed, so that a change is noticed, unless someone decides otherwise."""


def public_modules():
    """Names of each public module and, last, of the package, which mostly repeats names of its modules."""
    found = {info.name for info in pkgutil.iter_modules(newton_sap.__path__)}
    return [*(f"newton_sap.{name}" for name in sorted(found - INTERNAL)), "newton_sap"]


def public_names(module):
    """Names a module exports: its ``__all__``, or else what it defines itself without a leading underscore."""
    if hasattr(module, "__all__"):
        return sorted(name for name in module.__all__ if name != "__version__")
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and (name.isupper() or getattr(value, "__module__", None) == module.__name__)
    )


def show_annotation(annotation):
    """Text of an annotation; the same whether it is kept as a string or as an object."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def show_value(value):
    """Text of a default or a constant without addresses and without what differs between Python versions."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__qualname__
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show_value(k)}: {show_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return type(value).__name__ + "(" + ", ".join(map(show_value, value)) + ")"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({show_value(getattr(value, dataclasses.fields(value)[0].name))}, ...)"
    if isinstance(value, (set, frozenset)):
        return type(value).__name__ + "(" + ", ".join(sorted(map(show_value, value))) + ")"
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def show_signature(function):
    """Parameters and result of a callable in one line."""
    signature = inspect.signature(function)
    parts, keyword_only = [], False
    for parameter in signature.parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind == parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
        keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        text = star + parameter.name
        if parameter.annotation is not parameter.empty:
            text += ": " + show_annotation(parameter.annotation)
        if parameter.default is not parameter.empty:
            text += " = " + show_value(parameter.default)
        parts.append(text)
    result = signature.return_annotation
    arrow = "" if result is signature.empty else " -> " + show_annotation(result)
    return f"({', '.join(parts)}){arrow}"


def show_member(name, member):
    """One line for an attribute of a class, or None for what a caller does not see."""
    if isinstance(member, property):
        result = inspect.signature(member.fget).return_annotation
        return f"property {name}" + ("" if result is inspect.Signature.empty else f" -> {show_annotation(result)}")
    if isinstance(member, (classmethod, staticmethod)):
        return f"{type(member).__name__} {name}{show_signature(member.__func__)}"
    if inspect.isfunction(member):
        return f"def {name}{show_signature(member)}"
    if inspect.isclass(member):
        return f"class {name}"
    return f"{name} = {show_value(member)}"


def show_class(name, cls):
    """Lines of a class: bases, how it is built, fields with defaults, then its own members."""
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    lines = [f"class {name}({bases})" if bases else f"class {name}"]
    own = dict(vars(cls))
    if dataclasses.is_dataclass(cls):
        lines[0] = f"dataclass {lines[0][6:]}"
        for field in dataclasses.fields(cls):
            own.pop(field.name, None)
            if field.name.startswith("_"):
                continue
            default = "" if field.default is dataclasses.MISSING else f" = {show_value(field.default)}"
            if field.default_factory is not dataclasses.MISSING:
                default = f" = {show_value(field.default_factory)}()"
            lines.append(f"    {field.name}: {show_annotation(field.type)}{default}")
    elif "__init__" in own:
        lines.append(f"    def __init__{show_signature(own['__init__'])}")
    members = ((key, value) for key, value in sorted(own.items()) if not key.startswith("_"))
    return lines + [f"    {show_member(key, value)}" for key, value in members]


def show_interface():
    """Return the text of the whole public interface; a name that two modules export is described once."""
    lines, homes, modules = [], {}, public_modules()
    for module_name in modules:
        module = importlib.import_module(module_name)
        lines.append(f"[{module_name}]")
        for name in public_names(module):
            value = getattr(module, name)
            defined_in = getattr(value, "__module__", None)
            home = defined_in if defined_in in modules else module_name
            if isinstance(value, dict):  # a table has no __module__, but is one object wherever it is exported
                home = homes.setdefault(id(value), home)
            if home != module_name:
                lines.append(f"{name}: see {home}")
            else:
                lines += show_class(name, value) if inspect.isclass(value) else [show_member(name, value)]
        lines.append("")
    return "\n".join(lines)


def test_public_interface_is_the_snapshot():
    """Names, parameters, defaults and fields are those of the snapshot."""
    expected = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    difference = list(difflib.unified_diff(expected, show_interface().splitlines(), "snapshot", "now", "", "", 1, ""))
    if difference:
        message = f"The public interface changed. If that is meant, run: {COMMAND}"
        pytest.fail("\n".join([message, "", *difference]), pytrace=False)


def test_every_part_of_a_signature_is_shown():
    """Parameter kinds, defaults, annotations, fields, properties and methods appear; private names do not."""

    @dataclasses.dataclass
    class Sample(LookupError):
        size: "pathlib.Path"
        scale: float | None = None
        extra: dict = dataclasses.field(default_factory=dict)
        _hidden: int = 0

        @property
        def area(self) -> float: ...

        @staticmethod
        def make(first, *rest, kind: str = "a", **more) -> "pathlib.Path": ...

        def plain(self, value=math.inf, *, only): ...

        def _private(self): ...

    assert show_class("Sample", Sample) == [
        "dataclass Sample(LookupError)",
        "    size: Path",
        "    scale: float | None = None",
        "    extra: dict = dict()",
        "    property area -> float",
        "    staticmethod make(first, *rest, kind: str = 'a', **more) -> Path",
        "    def plain(self, value = inf, *, only)",
    ]


def test_internal_modules_exist():
    """No module is left out of the snapshot by a name that is gone."""
    assert INTERNAL <= {info.name for info in pkgutil.iter_modules(newton_sap.__path__)}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    SNAPSHOT.write_text(show_interface(), encoding="utf-8")
