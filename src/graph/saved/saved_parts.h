#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/saved/saved_messages.h"
#include "strata/graph/graph.h"

// What the messages of saved graphs and of steps for servers have in common.

namespace strata::graph::saved {

constexpr int64_t kMostDimensions = 64;

/// Of a dtype that a tensor of a message may have.
bool is_known_dtype(uint64_t dtype);

std::vector<int64_t> wide_ids(const std::vector<ValueId>& ids);

/// @return Nothing for a number of a kind that messages do not have.
std::optional<SavedOperand> save_operand(const Operand& operand);

/// Reads parts of a message that may come from anywhere.
class PartsReader {
 public:
  /// Throws, unless the first holds; the second is what there is instead.
  using Require = std::function<void(bool holds, const char* what)>;

  PartsReader(size_t num_values, Require require)
      : num_values_(num_values), require_(std::move(require)) {}

  ValueId id(int64_t saved) const;
  std::vector<ValueId> ids(const std::vector<int64_t>& saved) const;
  Node node(const SavedNode& saved) const;

 private:
  Operand operand(const SavedOperand& saved) const;
  c10::IValue number(const SavedNumber& saved) const;

  size_t num_values_;
  Require require_;
};

}  // namespace strata::graph::saved
