#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/strategies/strategy.h"

namespace strata::interop {
namespace detail {

/// Returns a tensor for each field of a torch::data::Example, stacked or one row, or of a
/// TensorExample.
template <typename TorchExample>
std::vector<at::Tensor> fields_of(const TorchExample& example) {
  if constexpr (requires { example.target; }) {
    return {example.data, example.target};
  } else {
    return {example.data};
  }
}

template <typename TorchExample>
TorchExample as_torch(const data::Example& example) {
  if constexpr (requires(const TorchExample& each) { each.target; }) {
    return TorchExample(example.x(), example.y());
  } else {
    return TorchExample(example.x());
  }
}

template <typename Batch>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

/// Stacks rows of several examples to one batch.
STRATA_API data::Example stack(const std::vector<std::vector<at::Tensor>>& rows);

template <typename Batch>
data::Example to_example(const Batch& batch) {
  if constexpr (IsVector<Batch>::value) {
    std::vector<std::vector<at::Tensor>> rows;
    for (const auto& row : batch) rows.push_back(fields_of(row));
    return stack(rows);
  } else {
    return data::Example(fields_of(batch));
  }
}

/// One epoch of a loader. A torch::data loader has one at a time, and begins the next only when the
/// last is used up, so an abandoned one is read to its end.
template <typename Loader>
class Epoch {
 public:
  explicit Epoch(std::shared_ptr<Loader> loader)
      : loader_(std::move(loader)), next_(loader_->begin()), end_(loader_->end()) {}
  ~Epoch() {
    try {
      while (!(next_ == end_)) ++next_;
    } catch (...) {  // the loader's own error; the next epoch gets it again
    }
  }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  std::optional<data::Example> next() {
    if (next_ == end_) return std::nullopt;
    data::Example example = to_example(*next_);
    ++next_;
    return example;
  }

 private:
  using Iterator = decltype(std::declval<Loader&>().begin());
  std::shared_ptr<Loader> loader_;
  Iterator next_;
  Iterator end_;
};

}  // namespace detail

/// Wraps the batches of a torch::data loader (`torch::data::make_data_loader`) as a dataset, for
/// `strategy.distribute`. Each pass is one epoch of the loader; one pass at a time, and an
/// abandoned one is read to its end, since loaders cannot be rewound otherwise. Batches of a
/// dataset without `.map(torch::data::transforms::Stack<>())` are stacked. x is `data`, y is
/// `target`.
///
/// A position counts batches; the loader's sampler decides whether restoring it yields the same
/// ones. Cost: no copy of stacked batches.
///
/// @param loader  Must outlive the dataset, or is owned by it.
/// @throws Error  kInvalidArgument, when read: rows of unequal shapes. Exceptions of the loader.
template <typename Loader>
data::Dataset from_data_loader(std::shared_ptr<Loader> loader) {
  return data::Dataset::from_generator(data::GeneratorFactory([loader = std::move(loader)] {
    return data::Generator(
        [epoch = std::make_shared<detail::Epoch<Loader>>(loader)] { return epoch->next(); });
  }));
}
template <typename Loader>
data::Dataset from_data_loader(std::unique_ptr<Loader> loader) {
  return from_data_loader(std::shared_ptr<Loader>(std::move(loader)));
}
template <typename Loader>
requires requires(Loader& loader) { loader.begin(); }
data::Dataset from_data_loader(Loader& loader) {
  return from_data_loader(std::shared_ptr<Loader>(&loader, [](Loader*) {}));
}

/// Runs one epoch of a torch::data loader under a strategy: calls `fn(batch)` on every replica with
/// its part of each batch, in the loader's type. A loop's body, written for one device, can be
/// passed unchanged:
///
///     for (const auto& batch : *loader) train_step(batch);      // becomes
///     interop::for_each_batch(strategy, *loader, train_step);
///
/// Parts differ by at most one row; a batch with fewer rows than replicas leaves some empty.
/// Threads: `fn` runs on all replicas at once.
template <typename Loader, typename Fn>
void for_each_batch(Strategy& strategy, Loader& loader, Fn&& fn) {
  using Batch = std::decay_t<decltype(*loader.begin())>;
  static_assert(
      !detail::IsVector<Batch>::value,
      "expected a loader of stacked batches: dataset.map(torch::data::transforms::Stack<>())");
  for (const auto& batch : strategy.distribute(from_data_loader(loader))) {
    strategy.run([&](const data::Example& part) { fn(detail::as_torch<Batch>(part)); }, batch);
  }
}

}  // namespace strata::interop
