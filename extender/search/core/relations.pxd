from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport i64
from extender.search.core.space cimport Space


cdef class Relations:
    cdef Space space
    cdef Levels levels
    cdef Columns c
    cdef int W                                   # limbs of the costs below; 1 within a stage
    cdef vector[i64] price, eff                  # U*W: by definition; under the decisions
    cdef vector[i64] break_price, break_eff      # G*W: by definition; as counted now
    cdef vector[i64] packed_eff, packed_break_eff  # outside of the stages
    cdef vector[char] budget_state               # OPEN, IN (paid) or OUT (not exceeded)
    cdef vector[i64] budget_price, tuned         # budgets*W: price of a pod now; when not IN
    cdef vector[char] gated, loose               # G: a variable; surplus counted afterwards
    cdef vector[char] spans                      # U: touches several nodes
    cdef vector[int] touch_first, touch_node     # relevant nodes per unit
    cdef vector[i64] weight                      # per touch: its part of the unit's price
    cdef vector[int] home                        # U: the one relevant node, -1
    cdef vector[int] budget_first, budget_unit
    cdef vector[int] gang_first, gang_unit
    cdef vector[char] relevant, active, dirty    # N: can gain; not frozen; to be rebuilt
    cdef vector[int] base_slots                  # N: seats under IN units
    cdef vector[int] node_first, node_entry      # entries of open units per relevant node
    cdef vector[int] entry_unit
    cdef vector[int] lifted_first, lifted_unit   # blockers per relevant node

    cdef void relate(self, vector[char]* gaining) noexcept nogil
    cdef void find_relevant(self) noexcept nogil
    cdef void lay_touches(self) noexcept nogil
    cdef void lay_budgets(self) noexcept nogil
    cdef void set_budget(self, int b, int state) noexcept nogil
    cdef void set_budget_price(self, int b, const i64* price) noexcept nogil
    cdef void tune(self, int b, const i64* price) noexcept nogil
    cdef void mark_dirty(self, int u) noexcept nogil
    cdef void mark_node_dirty(self, int n) noexcept nogil
    cdef void mark_active_dirty(self) noexcept nogil
    cdef void mark_built(self, int n) noexcept nogil
    cdef void close(self, int n) noexcept nogil
    cdef void set_unit(self, int u, int state) noexcept nogil
    cdef void set_gang(self, int g, int state) noexcept nogil
    cdef void enter_stages(self) noexcept nogil
    cdef void leave_stages(self) noexcept nogil
    cdef void set_price(self, int v, i64 price) noexcept nogil
    cdef bint shift_weight(self, int u, const vector[char]* taken, i64 step_size) noexcept nogil
    cdef void set_weight(self, const vector[i64]* weight) noexcept nogil
