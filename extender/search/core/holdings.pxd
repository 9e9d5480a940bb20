"""What is on a node, and what it offers: plain C++ records of the census."""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64

cdef extern from *:
    """
    #include <cstdint>
    #include <vector>
    struct PgxWho {
        int64_t priority = 0, gang = -1;
        bool whole = false, covered = false;
        int first = 0, last = 0;
    };
    struct PgxNode {
        std::vector<int64_t> whole, used;
        std::vector<PgxWho> who;
        std::vector<int> number;
        std::vector<int64_t> amount;
        uint64_t version = 0;
    };
    struct PgxStep {
        int64_t priority = 0, sure = 0, most = 0;
    };
    struct PgxOffer {
        uint64_t version = 0;
        std::vector<int64_t> free, total;
        std::vector<PgxStep> steps;
        std::vector<int> needed;
        std::vector<int64_t> amounts;
        int64_t now = 0, opens = 0;
        int stays = 0;
    };
    """
    cppclass Who "PgxWho":
        i64 priority, gang
        bint whole, covered
        int first, last  # its amounts
    cppclass NodeHoldings "PgxNode":
        vector[i64] whole, used  # by resource number
        vector[Who] who
        vector[int] number
        vector[i64] amount
        uint64_t version  # 0: nobody was ever here
    cppclass Step "PgxStep":
        i64 priority, sure, most
    cppclass Offer "PgxOffer":
        uint64_t version  # of the node it was made from
        vector[i64] free, total
        vector[Step] steps
        vector[int] needed  # places in NodeHoldings.who
        vector[i64] amounts  # R for each needed
        i64 now, opens
        int stays
