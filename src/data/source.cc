#include "data/source.h"

namespace strata::data::detail {

std::unique_ptr<IndexStream> Source::indices(uint64_t) const {
  STRATA_DCHECK(rows() != nullptr);  // and then it is overridden
  return nullptr;
}

std::optional<ElementSpec> Source::element_spec() const {
  return rows() != nullptr ? rows()->spec() : std::nullopt;
}

SourcePtr Source::with_inputs(std::vector<SourcePtr>) const {
  STRATA_DCHECK(inputs().empty());  // else it is overridden
  return nullptr;
}

SourcePtr Source::shard_files(int64_t, int64_t) const {
  STRATA_DCHECK(num_files() == 0);  // else it is overridden
  return nullptr;
}

SourcePtr Source::with_slices(const BatchSlices&) const { return nullptr; }

Options options_of(const Source& source) {
  Options options = source.own_options() != nullptr ? *source.own_options() : Options();
  for (const SourcePtr& input : source.inputs()) {
    const Options below = options_of(*input);
    const auto inherit = [](auto& own, const auto& inherited) {
      if (!own) own = inherited;
    };
    inherit(options.auto_shard_policy, below.auto_shard_policy);
    inherit(options.deterministic, below.deterministic);
    inherit(options.num_threads, below.num_threads);
    inherit(options.memory_budget, below.memory_budget);
  }
  return options;
}

void Source::raise_next_epoch(uint64_t at_least) const {
  uint64_t now = next_epoch_.load(std::memory_order_relaxed);
  while (now < at_least && !next_epoch_.compare_exchange_weak(now, at_least)) {
  }
}

void expect_position(const Position& position, const char* kind, size_t numbers, size_t children) {
  STRATA_CHECK(position.kind() == kind, kInvalidArgument, "[data] restore: got a position of '",
               position.kind(), "'; expected one of '", kind,
               "'; restore into a dataset built by the same transforms as the one that was saved");
  STRATA_CHECK(position.numbers().size() == numbers && position.children().size() == children,
               kInvalidArgument, "[data] restore: got ", position.numbers().size(), " numbers and ",
               position.children().size(), " inputs for '", kind, "'; expected ", numbers, " and ",
               children, "; the text is damaged or of another version");
}

int64_t position_number(const Position& position, size_t index, int64_t lowest, int64_t highest) {
  const int64_t value = position.numbers()[index];
  STRATA_CHECK(value >= lowest && value <= highest, kInvalidArgument, "[data] restore: got ", value,
               " as number ", index, " of '", position.kind(), "'; expected ", lowest, " to ",
               highest, "; restore into a dataset of the same source and options");
  return value;
}

}  // namespace strata::data::detail
