"""All rules that are taken out, row by row."""

from __future__ import annotations

from tests.security import (
    row_1,
    row_2,
    row_3,
    row_4,
    row_5,
    row_6,
    row_7,
    row_8,
    row_9,
    row_10,
)

MUTANTS = (
    *row_1.MUTANTS,
    *row_2.MUTANTS,
    *row_3.MUTANTS,
    *row_4.MUTANTS,
    *row_5.MUTANTS,
    *row_6.MUTANTS,
    *row_7.MUTANTS,
    *row_8.MUTANTS,
    *row_9.MUTANTS,
    *row_10.MUTANTS,
)
