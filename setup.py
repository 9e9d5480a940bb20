"""Build the compiled search where a C++ compiler is at hand; install without it elsewhere.

Everything else is declared in pyproject.toml. The extensions are optional: when
they cannot be built, extender.search.solver falls back to plain Python and
says so. PODGROUP_CHECKED_BUILD=1 builds them with bounds checks in every vector.
"""

import os

from setuptools import Extension, setup

MODULES = (
    "cover",
    "choice",
    "columns",
    "space",
    "levels",
    "relations",
    "frontiers",
    "several",
    "packing",
    "elimination",
    "zones",
    "answers",
    "pricing",
    "basis",
    "master",
    "ties",
    "program",
    "stages",
    "retries",
    "kernel",
    "asked",
    "census",
)

FLAGS = ["-O3", "-g0", "-fno-strict-aliasing", "-ffp-contract=off"]
if os.environ.get("PODGROUP_CHECKED_BUILD"):
    FLAGS = ["-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-D_GLIBCXX_ASSERTIONS"]


def extensions() -> list[Extension]:
    """The extension modules, translated by Cython (a build requirement)."""
    from Cython.Build import cythonize

    found: list[Extension] = cythonize(
        [
            Extension(
                f"extender.search.core.{name}",
                [f"extender/search/core/{name}.pyx"],
                language="c++",
                extra_compile_args=FLAGS,
            )
            for name in MODULES
        ],
        language_level=3,
    )
    for extension in found:
        extension.optional = True  # cythonize does not hand it on
    return found


setup(ext_modules=extensions())
