#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "strata/data/dataset.h"

// Random chains of transforms, for tests of what holds for all of them.
namespace strata::data {

/// How a chain is built: nothing of it may change what comes.
struct Build {
  int64_t parallel_calls = 2;  // of parallel transforms; 0: serial
  std::string folder = {};     // for caches in files
};

struct Chain {
  std::string name;
  Dataset dataset;
  bool batched = false;  // all fields share dimension 0
  bool endless = false;
  bool deterministic = true;
};

/// `source` in 0..1: in-memory rows, or a generator of the same elements. The same (seed, source)
/// gives the same chain of one to three transforms.
Chain draw_chain(uint32_t seed, int source, const Build& build);

/// The same with a last transform whose order is free.
Chain draw_free_chain(uint32_t seed, const Build& build);

/// How many transforms there are to draw from.
size_t num_transforms();

}  // namespace strata::data
