#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::collective {

/// One step of one rank of a collective whose buffers all ranks can address.
struct Step {
  enum class Kind {
    kMeet,    ///< Wait until every rank has come to this step.
    kReduce,  ///< target's chunk = the sum of the chunks of ranks [first, last), in tree order.
    kCopy,    ///< target's chunk = the chunk of rank `first`.
  };

  Kind kind;
  int chunk = 0;
  int first = 0;
  int last = 0;
  int target = 0;
};

/// A collective as data: what each rank does, in order. An executor runs it, a symbolic test proves
/// that it computes the fixed tree sum for every number of ranks, whoever prints it can read it.
///
/// Between two meetings the ranks run freely, so within such a phase no rank may touch a (rank,
/// chunk) that another rank writes.
struct Schedule {
  std::string name;
  int num_chunks = 1;                    ///< Buffers are cut into this many chunks.
  std::vector<std::vector<Step>> ranks;  ///< ranks[r] = the steps of rank r.
};

/// Rank r sums chunk r of all buffers and writes it into all of them. 2 meetings; every element is
/// read n times and written n times in all, the least that shared memory allows.
STRATA_API Schedule direct_all_reduce(int num_ranks);

/// Half-open range of elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Chunk `index` of `size` elements cut into `count` nearly equal parts. Inner borders are
/// multiples of 64 elements, so that two ranks never write one cache line. Late chunks may be
/// empty.
STRATA_API Range chunk_range(int64_t size, int count, int index);

}  // namespace strata::collective
