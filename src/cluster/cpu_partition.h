#pragma once

#include <vector>

namespace strata::cluster {

/// The cores that this process may use, those with a common place beside each other: first by
/// socket, then by physical core, whose hyper-threads the kernel numbers far apart.
std::vector<int> cores_by_place();

/// `cores` in `shares` parts of neighbours, as equal as can be, the larger first; all empty if
/// there are fewer cores than shares.
/// @param near  Of each share, the cores that it had rather have (of the NUMA node of its GPU); empty:
///   any. It gets as many as without, of these first: shares with the shortest lists choose first.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, int shares,
                                          const std::vector<std::vector<int>>& near = {});

/// Divides what processes of one machine may use, cores or GPUs, so that no two have the same:
/// processes that may use the same are given parts of it (`share_cores`), and one that has its own
/// keeps it. Each process computes the same from the same lists.
/// @param allowed  Of each process, those with a common place beside each other.
/// @param near  As for `share_cores`, of each process; for those that may use the same.
/// @return  Of each process, a part of its list; empty where there is not one for each of those
///   that it shares with.
std::vector<std::vector<int>> divide(const std::vector<std::vector<int>>& allowed,
                                     const std::vector<std::vector<int>>& near = {});

}  // namespace strata::cluster
