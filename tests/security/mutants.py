"""All rules that are taken out, row by row."""

from __future__ import annotations

from importlib import import_module

from tests.security.mutant import ROWS, Mutant

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant for row in ROWS for mutant in import_module(f"tests.security.row_{row}").MUTANTS
)
