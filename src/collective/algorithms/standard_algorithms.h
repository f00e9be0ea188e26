#pragma once

#include <vector>

#include "collective/algorithms/tree_reduction.h"
#include "strata/collective/algorithms.h"

namespace strata::collective {

// Strata's own algorithms, one file a family. docs/algorithms.md describes them.

// direct.cc
Schedule direct(const Request& request);    ///< all_reduce, reduce_scatter, all_gather
Schedule exchange(const Request& request);  ///< all_reduce

// doubling.cc
Schedule halving_doubling(const Request& request);    ///< all_reduce, reduce_scatter, all_gather
Schedule recursive_doubling(const Request& request);  ///< all_reduce
Schedule tree(const Request& request);                ///< all_reduce, broadcast

// hierarchical.cc
Schedule hierarchical(const Request& request);  ///< all_reduce
bool has_hosts_of_several_ranks(const Request& request);

// ring.cc
Schedule ring(const Request& request);  ///< all_reduce (any order), all_gather
bool all_have_replicas(const Request& request);

// broadcast.cc
Schedule send_to_all(const Request& request);  ///< broadcast
Schedule chain(const Request& request);        ///< broadcast
Schedule scatter(const Request& request);      ///< broadcast

// barrier.cc
Schedule dissemination(const Request& request);   ///< barrier
Schedule barrier_direct(const Request& request);  ///< barrier

/// The ranks host by host; of a broadcast, its root's host and the root first.
std::vector<int> ranks_by_host(const Request& request);

/// A tree with one leaf a rank, in the order of `ranks_by_host`.
LeafTree rank_tree(const Request& request);

}  // namespace strata::collective
