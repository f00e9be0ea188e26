#include "graph/relaxed_sizes.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "graph/fake.h"
#include "graph/passes.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::graph {
namespace {

/// Pairs of sizes that a graph is tried for: one size may happen to be that of another dimension, where
/// views of all there is leave nodes out.
constexpr int kMaxFailures = 3;

/// libtorch treats smaller ones in ways of their own.
constexpr int64_t kSmallest = 2;

int64_t special(int64_t size) { return std::min(size, kSmallest); }

std::string text_of(const std::exception& error) {
  const auto* const from_libtorch = dynamic_cast<const c10::Error*>(&error);
  return from_libtorch != nullptr ? from_libtorch->what_without_backtrace() : error.what();
}

/// A tensor of so many rows and no elements.
at::Tensor with_rows(const at::Tensor& tensor, int64_t rows) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[0] = rows;
  const int64_t bytes =
      extent(sizes, tensor.strides()) * static_cast<int64_t>(tensor.element_size());
  return tensor_in(make_fake_memory(bytes, tensor.device()), sizes, tensor.strides(), 0,
                   tensor.scalar_type());
}

}  // namespace

/// An end of the range, or within it; it holds what is known of both ends.
void RelaxedSizes::Range::add(int64_t size) {
  low = std::min(low, size);
  high = std::max(high, size);
  known(size) = Known::kRight;
}

void RelaxedSizes::Range::refuse(int64_t size) {
  if (size < low) too_low = std::max(too_low, size);
  if (size > high) too_high = std::min(too_high, size);
  if (is_between(size) && known(size) == Known::kNo) known(size) = Known::kWrong;
}

RelaxedSizes::Groups::Groups(const Leaves& arguments) {
  for (const at::Tensor& tensor : arguments.tensors) {
    if (!tensor.defined() || tensor.dim() == 0) {
      of.push_back(-1);
      continue;
    }
    const auto place = std::ranges::find(sizes, tensor.size(0));
    of.push_back(static_cast<int>(place - sizes.begin()));
    if (place == sizes.end()) sizes.push_back(tensor.size(0));
  }
}

/// The recordings of one call.
class RelaxedSizes::Learning {
 public:
  /// @param leaves  Are found by the first recording, if they are not known.
  Learning(const Leaves& arguments, const Groups& groups, Layouts& layouts,
           std::optional<std::vector<at::Tensor>>& leaves, const Record& record)
      : arguments_(arguments),
        groups_(groups),
        layouts_(layouts),
        leaves_(leaves),
        record_(record) {}

  /// At these sizes of groups.
  Trace trace(const RowSizes& sizes) {
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < arguments_.tensors.size(); ++i) {
      const at::Tensor& tensor = arguments_.tensors[i];
      if (groups_.of[i] < 0) {
        inputs.push_back(tensor);
        continue;
      }
      inputs.push_back(with_rows(tensor, sizes[static_cast<size_t>(groups_.of[i])]));
      inputs.back().set_requires_grad(tensor.requires_grad());
    }
    if (!leaves_) {
      const Recorded first = record_(inputs, layouts_, {});
      leaves_.emplace();
      for (const GradientEffect& effect : first.trace.effects) leaves_->push_back(effect.leaf);
    }
    Recorded recorded = record_(inputs, layouts_, *leaves_);
    STRATA_CHECK(!recorded.trace.leaves_tensors, kFailedPrecondition,
                 "it keeps a tensor of its own for later (in a member, in a list)");
    STRATA_CHECK(!structure_ || structure_->rest == recorded.structure->rest, kFailedPrecondition,
                 "it returns a number, or a list, that depends on the size");
    structure_ = recorded.structure;
    remove_dead(recorded.trace);
    return std::move(recorded.trace);
  }

  /// With the structure of an earlier call's.
  void expect(std::shared_ptr<const FunctionCore::Structured> structure) {
    structure_ = std::move(structure);
  }
  const std::shared_ptr<const FunctionCore::Structured>& structure() const { return structure_; }

 private:
  const Leaves& arguments_;
  const Groups& groups_;
  Layouts& layouts_;
  std::optional<std::vector<at::Tensor>>& leaves_;
  const Record& record_;
  std::shared_ptr<const FunctionCore::Structured> structure_;
};

RelaxedSizes::RelaxedSizes(std::string name, const Leaves& arguments)
    : name_(std::move(name)),
      signature_(arguments),
      groups_(arguments),
      base_(groups_.sizes),
      others_(base_.size(), 0) {}

bool RelaxedSizes::fits(const Leaves& arguments) const {
  if (!signature_.fits_rows(arguments)) return false;
  const Groups groups(arguments);
  return groups.of == groups_.of &&
         std::ranges::equal(groups.sizes, groups_.sizes, {}, special, special);
}

bool RelaxedSizes::is_first(const Leaves& arguments) const { return signature_.fits(arguments); }

RowSizes RelaxedSizes::symbols_of(const RowSizes& sizes) const {
  RowSizes symbols;
  for (const size_t group : varying_) symbols.push_back(sizes[group]);
  return symbols;
}

bool RelaxedSizes::keeps_constants(const RowSizes& sizes) const {
  for (size_t g = 0; g < sizes.size(); ++g) {
    const bool varies = std::ranges::find(varying_, g) != varying_.end();
    if (!varies && sizes[g] != base_[g]) return false;
  }
  return true;
}

bool RelaxedSizes::is_in_range(const RowSizes& sizes) const {
  const RowSizes symbols = symbols_of(sizes);
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (!ranges_[i].has(symbols[i])) return false;
  }
  return true;
}

bool RelaxedSizes::may_check(const RowSizes& sizes) const {
  const RowSizes symbols = symbols_of(sizes);
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (!ranges_[i].may_have(symbols[i])) return false;
  }
  return true;
}

std::optional<RelaxedSizes::Instance> RelaxedSizes::instantiate(const Leaves& arguments) {
  const MutexLock lock(mutex_);
  const RowSizes sizes = Groups(arguments).sizes;
  if (!graph_ || !checked_ || !keeps_constants(sizes) || !is_in_range(sizes)) return std::nullopt;
  std::shared_ptr<const Trace> trace = graph_->at(symbols_of(sizes));
  if (!trace) return std::nullopt;
  return Instance{.trace = std::move(trace), .structure = structure_};
}

bool RelaxedSizes::wants(const Leaves& arguments) {
  const MutexLock lock(mutex_);
  return wants(Groups(arguments).sizes);
}

bool RelaxedSizes::wants(const RowSizes& sizes) const {
  if (failures_ >= kMaxFailures || sizes == base_) return false;
  if (!graph_ || !keeps_constants(sizes)) return true;
  return may_check(sizes) && !(checked_ && is_in_range(sizes));
}

bool RelaxedSizes::learn(const Leaves& arguments, Layouts&& seen, const Record& record) {
  const MutexLock lock(mutex_);
  const RowSizes sizes = Groups(arguments).sizes;
  if (!wants(sizes)) return false;
  layouts_.take(std::move(seen));
  Learning learning(arguments, groups_, layouts_, leaves_, record);
  const bool had_one = graph_ && checked_ && keeps_constants(sizes);
  try {
    if (!graph_ || !keeps_constants(sizes)) {
      make_graph(learning, sizes);
      try_small_sizes(learning);
    } else {
      check(learning, sizes);
    }
    return !had_one && checked_;
  } catch (const std::exception& error) {
    fail(sizes, text_of(error));
  }
  return false;
}

/// From the base and, for each symbol, a recording where it alone has another size.
void RelaxedSizes::make_graph(Learning& learning, const RowSizes& sizes) {
  std::vector<size_t> varying;
  for (size_t g = 0; g < sizes.size(); ++g) {
    if (sizes[g] != base_[g]) others_[g] = sizes[g];
    if (others_[g] != 0 && others_[g] != base_[g]) varying.push_back(g);
  }
  varying_ = varying;
  graph_.reset();
  leaves_.reset();
  checked_ = false;
  const Trace base = learning.trace(base_);
  SizePoints points{.base = symbols_of(base_), .others = {}};
  std::vector<Trace> traces;
  fitted_ = {points.base};
  for (const size_t group : varying) {
    RowSizes at = base_;
    at[group] = others_[group];
    while (std::ranges::count(at, at[group]) > 1 || at[group] == base_[group]) ++at[group];
    points.others.push_back(at[group]);
    traces.push_back(learning.trace(at));
    fitted_.push_back(symbols_of(at));
  }
  const Trace again = learning.trace(base_);
  if (const auto changed = difference(base.graph, again.graph)) {
    STRATA_CHECK(false, kFailedPrecondition, "it is not the same each time: ", *changed);
  }
  graph_.emplace(base, points, traces);
  structure_ = learning.structure();
  ranges_.clear();
  for (size_t i = 0; i < varying.size(); ++i) {
    Range& range = ranges_.emplace_back(Range{.low = points.base[i],
                                              .high = points.base[i],
                                              .too_low = kSmallest - 1,
                                              .too_high = std::numeric_limits<int64_t>::max()});
    range.add(points.base[i]);
    range.add(points.others[i]);
  }
  if (varying.size() > 1) check(learning, sizes);
}

/// Sizes of both parities at the lower end. Where a step cannot have such sizes, nothing is known of them.
void RelaxedSizes::try_small_sizes(Learning& learning) {
  const auto count = static_cast<int64_t>(varying_.size());
  std::vector<RowSizes> as_expected, others;
  std::string reason;
  for (const bool falling : {false, true}) {
    RowSizes sizes = base_;
    int64_t next = falling ? kSmallest + std::max<int64_t>(count - 1, 1) : kSmallest;
    for (const size_t group : varying_) {
      sizes[group] = next;
      next += falling ? -1 : 1;
    }
    const auto is_double = [&](int64_t size) { return std::ranges::count(sizes, size) > 1; };
    if (std::ranges::any_of(sizes, is_double)) continue;  // of a constant
    if (std::ranges::find(fitted_, symbols_of(sizes)) != fitted_.end()) continue;
    try {
      const auto wrong = graph_->check(learning.trace(sizes), symbols_of(sizes));
      (wrong ? others : as_expected).push_back(sizes);
      if (wrong) reason = *wrong;
    } catch (const std::exception&) {
      continue;
    }
  }
  for (const RowSizes& sizes : others) {
    if (is_in_range(sizes)) graph_.reset();
    STRATA_CHECK(graph_, kFailedPrecondition, reason);
    refuse(sizes);
  }
  for (const RowSizes& sizes : as_expected) {
    if (may_check(sizes)) extend(sizes);
    checked_ = true;
  }
}

void RelaxedSizes::check(Learning& learning, const RowSizes& sizes) {
  learning.expect(structure_);
  const auto reason = graph_->check(learning.trace(sizes), symbols_of(sizes));
  STRATA_CHECK(!reason, kFailedPrecondition, *reason);
  extend(sizes);
  checked_ = true;
}

void RelaxedSizes::extend(const RowSizes& sizes) {
  const RowSizes symbols = symbols_of(sizes);
  for (size_t i = 0; i < symbols.size(); ++i) ranges_[i].add(symbols[i]);
}

void RelaxedSizes::refuse(const RowSizes& sizes) {
  const RowSizes symbols = symbols_of(sizes);
  for (size_t i = 0; i < symbols.size(); ++i) ranges_[i].refuse(symbols[i]);
}

void RelaxedSizes::fail(const RowSizes& sizes, const std::string& reason) {
  if (graph_ && checked_) {  // it holds for the sizes that it was checked for
    refuse(sizes);
    return log(reason);
  }
  graph_.reset();
  checked_ = false;
  base_ = sizes;
  others_.assign(others_.size(), 0);
  if (++failures_ == kMaxFailures) log(reason);
}

void RelaxedSizes::log(const std::string& reason) {
  if (std::exchange(logged_, true)) return;
  STRATA_LOG(kWarning) << "[function] " << name_
                       << ": calls with other first dimensions run as they are written, since "
                          "no graph is right for all of them: "
                       << reason;
}

}  // namespace strata::graph
