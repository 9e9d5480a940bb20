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

    cdef bint out_of_time(self) noexcept nogil:
        """Whether the branches, the steps or the time are used up."""
        if self.branches >= self.branch_limit:
            return True
        if self.work // STEP_WORK >= self.branch_limit:
            return True
        return late(&self.clock)
