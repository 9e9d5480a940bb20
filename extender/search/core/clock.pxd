"""When a search ends early: a moment, and a flag that another thread sets."""

from libc.time cimport time_t

cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* now)
    int CLOCK_MONOTONIC

cdef struct Clock:
    double deadline             # of time.monotonic; 0 for none
    const signed char* cancel   # NULL for none; the caller keeps the buffer
    long long* asks             # of a Countdown: how often it says "go on"; NULL for none
    bint over                   # seen once, it stays


cdef inline bint late(Clock* clock) noexcept nogil:
    """Whether the search shall end; some 30 ns, so it may be asked every few microseconds."""
    cdef timespec now
    if clock.over:
        return True
    if clock.cancel != NULL and clock.cancel[0]:
        clock.over = True
    elif clock.asks != NULL:
        clock.over = clock.asks[0] <= 0
        clock.asks[0] -= 1
    elif clock.deadline > 0:
        clock_gettime(CLOCK_MONOTONIC, &now)
        clock.over = now.tv_sec + now.tv_nsec * 1e-9 >= clock.deadline
    return clock.over


cdef inline void start_clock(Clock* clock, double deadline, cancel):
    """``cancel``: a buffer of one signed byte, a Countdown (search/stop.py), or None; it
    outlives the clock's use."""
    cdef const signed char[::1] flag
    cdef long long[::1] asks
    clock.deadline = deadline
    clock.over = False
    clock.cancel = NULL
    clock.asks = NULL
    if cancel is None:
        return
    if hasattr(cancel, "asks"):
        asks = cancel.asks
        clock.asks = &asks[0]
    else:
        flag = cancel
        clock.cancel = &flag[0]
