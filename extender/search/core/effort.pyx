# distutils: language = c++
"""What a search may take, and what it took: the clock, branches, elementary steps."""

from extender.search.core.clock cimport late, start_clock

cdef enum:
    STEP_WORK = 20000         # elementary steps that count as one branch


cdef class Effort:
    """Shared by all parts of one search: each counts its steps here, and asks when to end."""

    def start(self, i64 branch_limit, double deadline, cancel):
        """Nothing spent yet; ``deadline`` and ``cancel`` as start_clock."""
        self.branch_limit = branch_limit
        self.branches = 0
        self.work = 0
        self.halted = False
        start_clock(&self.clock, deadline, cancel)

    cdef void count(self, i64 steps) noexcept nogil:
        """So many elementary steps were taken."""
        self.work += steps

    cdef void count_branch(self) noexcept nogil:
        """A relaxation is looked at."""
        self.branches += 1

    cdef void halt(self) noexcept nogil:
        """A branch is left for want of time: so are all that follow."""
        self.halted = True

    cdef bint late(self) noexcept nogil:
        """Whether the time is up, asked anew; ``clock.over`` keeps the last answer."""
        return late(&self.clock)

    cdef bint out_of_time(self) noexcept nogil:
        """Whether the branches, the steps or the time are used up."""
        if self.branches >= self.branch_limit:
            return True
        if self.work // STEP_WORK >= self.branch_limit:
            return True
        return late(&self.clock)
