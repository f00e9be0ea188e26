#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "collective/algorithms/local_subtrees.h"
#include "collective/collective_call.h"
#include "strata/collective/schedule.h"

namespace strata::collective {

/// What a rank adds up itself, as it travels: the sums of its nodes of the tree over a range of
/// elements, one after the other.
class MpiPackets {
 public:
  /// @param call  An all_reduce's or reduce_scatter's.
  MpiPackets(const LocalSubtrees& subtrees, int rank, const CollectiveCall& call)
      : subtrees_(subtrees), rank_(rank), call_(call) {}

  /// Of a rank's packet of so many elements.
  int64_t bytes(int rank, int64_t elements) const;
  /// This rank's values are its packet: of a range, they lie at that place in them.
  bool plain() const;
  /// @param for_others  False: without what `join` takes from the values themselves.
  void pack(const Range& range, std::byte* packet, bool for_others) const;
  /// The tree over all ranks' packets to the result. @param range  In `packed`, what is joined.
  /// @param packets  By rank, of the range `packed`; this rank's may be null where it is plain.
  void join(const Range& range, const Range& packed,
            const std::function<const std::byte*(int rank)>& packets) const;

 private:
  int64_t node_bytes(const LocalSubtrees::Node& node, int64_t elements) const;
  std::byte* value(const LocalSubtrees::Node& node, int replica, int64_t element) const;

  const LocalSubtrees& subtrees_;
  int rank_;
  const CollectiveCall& call_;
};

}  // namespace strata::collective
