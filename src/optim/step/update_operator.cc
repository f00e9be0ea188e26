// Update rules as operators over lists of tensors: one call updates a replica's share of all
// variables, block by block in the first-level cache.
#include "optim/step/update_operator.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "core/nontemporal_copy.h"
#include "kernels/find_operator.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "tensor/rule_json.h"
#include "tensor/tree_kernels.h"
#include "tensor/tree_sum.h"

namespace strata::optimizers {
namespace {

using Doubles = at::ArrayRef<double>;

/// Elements worked on at a time: a block of parameters, gradients and slots fits the first-level
/// cache.
constexpr int64_t kBlock = 1024;

/// Rules have no state, and a program has few: each thread makes them once.
const tensor::UpdateRule& rule_of(std::string_view text) {
  thread_local std::map<std::string, std::unique_ptr<tensor::UpdateRule>, std::less<>> rules;
  auto found = rules.find(text);
  if (found == rules.end()) {
    const Json json = Json::parse(text);
    found = rules.emplace(text, tensor::make_rule(tensor::rule_from_json(json))).first;
  }
  return *found->second;
}

tensor::PreparedStep step_of(double learning_rate, Doubles constants) {
  tensor::PreparedStep step;
  STRATA_CHECK(constants.size() == step.constants.size(), kInvalidArgument, "[optim] update_: got ",
               constants.size(), " constants; expected ", step.constants.size());
  step.learning_rate = learning_rate;
  std::ranges::copy(constants, step.constants.begin());
  return step;
}

/// The arguments of one variable.
struct VariableUpdate {
  const tensor::UpdateRule& rule;
  const tensor::PreparedStep& step;
  const at::Tensor& parameter;
  int64_t begin;
  int64_t end;
  at::TensorList gradients;
  at::TensorList slots;
  at::TensorList copies;
  double scale;
  double weight_decay;
  double clip_value;
  bool past_caches;
  bool touched_rows_only = false;

  void check() const {
    const int64_t size = parameter.numel();
    bool good = 0 <= begin && begin <= end && end <= size;
    const auto fits = [&](const at::Tensor& tensor) { return tensor.numel() == size; };
    good = good && std::ranges::all_of(copies, fits);
    for (const at::Tensor& gradient : gradients) {
      good = good && (gradient.numel() == 0 ||
                      (fits(gradient) && gradient.scalar_type() == parameter.scalar_type()));
    }
    for (const at::Tensor& slot : slots) {
      good = good && slot.scalar_type() == parameter.scalar_type();
    }
    if (rule.whole_variables()) {
      good = good && begin == 0 && end == size;
    } else {
      good = good && std::ranges::all_of(slots, fits);
    }
    STRATA_CHECK(good, kInvalidArgument, "[optim] update_: got elements ", begin, " to ", end,
                 " of a variable of ", size,
                 "; expected a range of it (all, for rules of whole variables), and gradients, "
                 "slots and copies as large");
  }
};

/// Calls `call` for each variable of an operator's lists.
template <typename Call>
void for_each_variable(std::string_view rule_text, double learning_rate, Doubles constants,
                       double clip_value, at::TensorList parameters, at::IntArrayRef ranges,
                       at::TensorList gradients, at::IntArrayRef num_gradients, Doubles scales,
                       Doubles weight_decays, at::TensorList slots, at::TensorList copies,
                       at::IntArrayRef num_copies, bool past_caches, const Call& call) {
  const tensor::UpdateRule& rule = rule_of(rule_text);
  const tensor::PreparedStep step = step_of(learning_rate, constants);
  const size_t count = parameters.size();
  const auto num_slots = static_cast<size_t>(rule.num_slots());
  STRATA_CHECK(ranges.size() == 2 * count && num_gradients.size() == count &&
                   scales.size() == count && weight_decays.size() == count &&
                   num_copies.size() == count && slots.size() == num_slots * count,
               kInvalidArgument, "[optim] update_: got lists of other lengths than ", count,
               " parameters need");
  for (size_t i = 0; i < count; ++i) {
    const auto own_gradients = static_cast<size_t>(num_gradients[i]);
    const auto own_copies = static_cast<size_t>(num_copies[i]);
    const VariableUpdate update{.rule = rule,
                                .step = step,
                                .parameter = parameters[i],
                                .begin = ranges[2 * i],
                                .end = ranges[2 * i + 1],
                                .gradients = gradients.slice(0, own_gradients),
                                .slots = slots.slice(i * num_slots, num_slots),
                                .copies = copies.slice(0, own_copies),
                                .scale = scales[i],
                                .weight_decay = weight_decays[i],
                                .clip_value = clip_value,
                                .past_caches = past_caches};
    update.check();
    gradients = gradients.slice(own_gradients);
    copies = copies.slice(own_copies);
    if (update.begin < update.end) call(update);
  }
}

/// What was written to elements [begin, begin + size) of the parameter, to its copies.
template <typename T>
void spread(const VariableUpdate& update, const T* values, int64_t begin, int64_t size) {
  const int64_t bytes = size * static_cast<int64_t>(sizeof(T));
  for (const at::Tensor& copy : update.copies) {
    if constexpr (std::is_same_v<T, float>) {
      if (copy.scalar_type() == at::kBFloat16) {
        static const auto round = tensor::tree_kernels(best_cpu_isa()).bf16.narrow;
        round(values, size, static_cast<uint16_t*>(copy.mutable_data_ptr()) + begin);
        continue;
      }
    }
    T* const to = copy.mutable_data_ptr<T>() + begin;
    if (update.past_caches) {
      strata::detail::nontemporal_copy(reinterpret_cast<std::byte*>(to),
                                       reinterpret_cast<const std::byte*>(values), bytes);
      strata::detail::nontemporal_fence();
    } else {
      std::memcpy(to, values, static_cast<size_t>(bytes));
    }
  }
}

/// The rule on elements [begin, begin + size), whose gradient is `gradient`; null: zeros.
template <typename T>
void apply(const VariableUpdate& update, const T* gradient, int64_t begin, int64_t size) {
  T* const parameter = update.parameter.mutable_data_ptr<T>() + begin;
  tensor::UpdateSpan<T> span{.parameter = parameter,
                             .gradient = gradient,
                             .slots = {},
                             .size = size,
                             .gradient_scale = update.scale,
                             .clip_value = update.clip_value,
                             .weight_decay = update.weight_decay};
  for (size_t i = 0; i < update.slots.size(); ++i) {
    span.slots[i] = update.slots[i].mutable_data_ptr<T>() + begin;
  }
  if (update.rule.whole_variables()) span.sizes = update.parameter.sizes();
  update.rule.apply(span, update.step);
  spread(update, parameter, begin, size);
}

/// A variable that lies in another order than its shape's: the rule sees rows and columns, and its
/// norms add up in their order, so that a step does not depend on how a variable lies.
template <typename T>
void apply_in_row_order(const VariableUpdate& update, const T* gradient) {
  const at::Tensor& home = update.parameter;
  const at::Tensor by_memory = at::empty_strided(home.sizes(), home.strides(), home.options());
  std::memcpy(by_memory.mutable_data_ptr(), gradient, by_memory.nbytes());
  const at::Tensor rows = by_memory.contiguous();
  const at::Tensor parameter = home.contiguous();
  std::vector<at::Tensor> slots;
  for (const at::Tensor& slot : update.slots) slots.push_back(slot.contiguous());
  VariableUpdate in_rows{.rule = update.rule,
                         .step = update.step,
                         .parameter = parameter,
                         .begin = update.begin,
                         .end = update.end,
                         .gradients = {},
                         .slots = slots,
                         .copies = {},
                         .scale = update.scale,
                         .weight_decay = update.weight_decay,
                         .clip_value = update.clip_value,
                         .past_caches = false};
  apply(in_rows, rows.const_data_ptr<T>(), 0, update.end);
  home.copy_(parameter);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_same(update.slots[i])) update.slots[i].copy_(slots[i]);
  }
  spread(update, home.const_data_ptr<T>(), 0, update.end);
}

template <typename T>
void apply_whole(const VariableUpdate& update, const T* gradient) {
  if (update.parameter.is_contiguous()) {
    apply(update, gradient, 0, update.end);
  } else {
    apply_in_row_order(update, gradient);
  }
}

/// Fetches what is added next: another core has just written it.
template <typename T>
void fetch(const c10::SmallVector<const T*, 16>& sources, int64_t begin, int64_t size) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (const T* source : sources) {
    if (source == nullptr) continue;
    for (int64_t i = 0; i < size; i += kLine) __builtin_prefetch(source + begin + i, 0, 2);
  }
}

template <typename T>
void update_on_cpu(const VariableUpdate& update) {
  c10::SmallVector<const T*, 16> sources;
  for (const at::Tensor& gradient : update.gradients) {
    sources.push_back(gradient.numel() == 0 ? nullptr : gradient.const_data_ptr<T>());
  }
  const bool whole = update.rule.whole_variables();
  // Blocks are for the caches: what is neither added nor copied needs none.
  if (sources.size() == 1 && sources[0] != nullptr && (whole || update.copies.empty())) {
    if (whole) return apply_whole(update, sources[0]);
    return apply(update, sources[0] + update.begin, update.begin, update.end - update.begin);
  }
  const auto add = [&](int64_t begin, int64_t size, T* sum) -> const T* {
    if (sources.size() == 1 && sources[0] != nullptr) return sources[0] + begin;
    c10::SmallVector<const T*, 16> here;
    for (const T* source : sources) here.push_back(source == nullptr ? source : source + begin);
    tensor::sum_in_tree_order(here.data(), static_cast<int>(here.size()), size, sum);
    return sum;
  };
  if (whole) {
    const at::Tensor sum = at::empty({update.end}, update.parameter.options());
    T* const values = sum.mutable_data_ptr<T>();
    add(0, update.end, values);
    return apply_whole<T>(update, values);
  }
  alignas(64) T buffer[kBlock];
  const bool others = sources.size() > 1;
  for (int64_t begin = update.begin; begin < update.end; begin += kBlock) {
    const int64_t size = std::min(kBlock, update.end - begin);
    if (others) fetch(sources, begin + size, std::min(kBlock, update.end - begin - size));
    apply(update, add(begin, size, buffer), begin, size);
  }
}

void update_cpu(std::string_view rule, double learning_rate, Doubles constants, double clip_value,
                at::TensorList parameters, at::IntArrayRef ranges, at::TensorList gradients,
                at::IntArrayRef num_gradients, Doubles scales, Doubles weight_decays,
                at::TensorList slots, at::TensorList copies, at::IntArrayRef num_copies,
                bool past_caches) {
  for_each_variable(rule, learning_rate, constants, clip_value, parameters, ranges, gradients,
                    num_gradients, scales, weight_decays, slots, copies, num_copies, past_caches,
                    [](const VariableUpdate& update) {
                      if (update.parameter.scalar_type() == at::kFloat) {
                        update_on_cpu<float>(update);
                      } else {
                        update_on_cpu<double>(update);
                      }
                    });
}

/// A view of the update's elements, or all of a tensor for rules of whole variables.
at::Tensor elements(const VariableUpdate& update, const at::Tensor& tensor) {
  if (update.rule.whole_variables()) return tensor;
  return in_memory_order(tensor).slice(0, update.begin, update.end);
}

void apply_by_libtorch(const VariableUpdate& update, const at::Tensor& gradient) {
  at::Tensor parameter = elements(update, update.parameter);
  std::vector<at::Tensor> slots;
  for (const at::Tensor& slot : update.slots) slots.push_back(elements(update, slot));
  update.rule.apply(parameter, gradient, slots,
                    {.gradient_scale = update.scale,
                     .clip_value = update.clip_value,
                     .weight_decay = update.weight_decay},
                    update.step);
  for (const at::Tensor& copy : update.copies) elements(update, copy).copy_(parameter);
}

void update_by_libtorch(std::string_view rule, double learning_rate, Doubles constants,
                        double clip_value, at::TensorList parameters, at::IntArrayRef ranges,
                        at::TensorList gradients, at::IntArrayRef num_gradients, Doubles scales,
                        Doubles weight_decays, at::TensorList slots, at::TensorList copies,
                        at::IntArrayRef num_copies, bool past_caches) {
  for_each_variable(
      rule, learning_rate, constants, clip_value, parameters, ranges, gradients, num_gradients,
      scales, weight_decays, slots, copies, num_copies, past_caches,
      [](const VariableUpdate& update) {
        std::vector<at::Tensor> sources;
        for (const at::Tensor& each : update.gradients) {
          sources.push_back(each.numel() == 0 ? at::Tensor() : elements(update, each));
        }
        apply_by_libtorch(update, tensor::reduce_in_tree_order(tensor::TreeOp::kSum, sources));
      });
}

/// Calls `work(gradient, begin, size)` for the pieces of the elements in turn. The gradient of rows
/// that have none is null, or they are left out.
template <typename T, typename Work>
void for_each_row(const VariableUpdate& update, const at::Tensor& rows, const at::Tensor& values,
                  bool skip_untouched, const Work& work) {
  const int64_t* const first = rows.const_data_ptr<int64_t>();
  const int64_t* const last = first + rows.numel();
  const T* const data = values.const_data_ptr<T>();
  const int64_t width = update.parameter.numel() / update.parameter.size(0);
  const int64_t* next = std::lower_bound(first, last, update.begin / width);
  for (int64_t at = update.begin; at < update.end;) {
    const int64_t row_begin = next == last ? update.end : *next * width;
    if (at < row_begin) {
      const int64_t end = std::min(row_begin, update.end);
      if (!skip_untouched) work(nullptr, at, end - at);
      at = end;
      continue;
    }
    const int64_t end = std::min(row_begin + width, update.end);
    work(data + (next - first) * width + (at - row_begin), at, end - at);
    at = end;
    ++next;
  }
}

template <typename T>
void update_rows_on_cpu(const VariableUpdate& update, const at::Tensor& rows,
                        const at::Tensor& values) {
  if (update.rule.whole_variables()) {
    const at::Tensor dense = at::empty({update.end}, update.parameter.options());
    T* const sum = dense.mutable_data_ptr<T>();
    for_each_row<T>(update, rows, values, false, [&](const T* from, int64_t at, int64_t size) {
      if (from == nullptr) {
        std::fill_n(sum + at, size, T(0));
      } else {
        std::copy_n(from, size, sum + at);
      }
    });
    return apply_whole<T>(update, sum);
  }
  const bool skip_untouched =
      update.touched_rows_only ||
      (update.rule.zero_gradient_is_identity() && !(update.weight_decay > 0));
  for_each_row<T>(update, rows, values, skip_untouched,
                  [&](const T* from, int64_t at, int64_t size) { apply(update, from, at, size); });
}

/// What the operators of rows have in common.
template <typename Call>
void with_rows(std::string_view rule_text, double learning_rate, Doubles constants,
               double clip_value, const at::Tensor& parameter, at::IntArrayRef range,
               const at::Tensor& rows, const at::Tensor& values, double scale, double weight_decay,
               at::TensorList slots, at::TensorList copies, bool past_caches,
               bool touched_rows_only, const Call& call) {
  STRATA_CHECK(parameter.dim() > 0 && range.size() == 2 && rows.scalar_type() == at::kLong &&
                   values.scalar_type() == parameter.scalar_type() && rows.is_contiguous() &&
                   values.is_contiguous() &&
                   values.numel() * parameter.size(0) == rows.numel() * parameter.numel(),
               kInvalidArgument, "[optim] update_rows_: got ", rows.numel(), " rows and values of ",
               values.sizes(), " for a parameter of ", parameter.sizes());
  const tensor::UpdateRule& rule = rule_of(rule_text);
  const tensor::PreparedStep step = step_of(learning_rate, constants);
  STRATA_CHECK(slots.size() == static_cast<size_t>(rule.num_slots()), kInvalidArgument,
               "[optim] update_rows_: got ", slots.size(), " slots; expected ", rule.num_slots());
  const VariableUpdate update{.rule = rule,
                              .step = step,
                              .parameter = parameter,
                              .begin = range[0],
                              .end = range[1],
                              .gradients = {},
                              .slots = slots,
                              .copies = copies,
                              .scale = scale,
                              .weight_decay = weight_decay,
                              .clip_value = clip_value,
                              .past_caches = past_caches,
                              .touched_rows_only = touched_rows_only};
  update.check();
  if (update.begin < update.end) call(update);
}

void update_rows_cpu(std::string_view rule, double learning_rate, Doubles constants,
                     double clip_value, const at::Tensor& parameter, at::IntArrayRef range,
                     const at::Tensor& rows, const at::Tensor& values, double scale,
                     double weight_decay, at::TensorList slots, at::TensorList copies,
                     bool past_caches, bool touched_rows_only) {
  with_rows(rule, learning_rate, constants, clip_value, parameter, range, rows, values, scale,
            weight_decay, slots, copies, past_caches, touched_rows_only,
            [&](const VariableUpdate& update) {
              if (parameter.scalar_type() == at::kFloat) {
                update_rows_on_cpu<float>(update, rows, values);
              } else {
                update_rows_on_cpu<double>(update, rows, values);
              }
            });
}

/// Of the touched rows the elements within the update's range.
void touch_rows_by_libtorch(const VariableUpdate& update, const RowGradient& gradient) {
  if (update.parameter.is_meta()) return;  // libtorch has no at::where there
  const int64_t width = update.parameter.numel() / update.parameter.size(0);
  const at::Tensor columns = at::arange(width, gradient.rows.options());
  const at::Tensor places = (gradient.rows.unsqueeze(1) * width + columns).flatten();
  const bool whole = update.begin == 0 && update.end == update.parameter.numel();
  const at::Tensor inside =
      whole ? at::Tensor() : places.ge(update.begin).bitwise_and_(places.lt(update.end));
  const auto read = [&](const at::Tensor& from) {
    return in_memory_order(from).index_select(0, places);
  };
  const auto write = [&](const at::Tensor& to, const at::Tensor& values) {
    const at::Tensor cast = values.to(to.scalar_type());
    in_memory_order(to).index_copy_(0, places, whole ? cast : at::where(inside, cast, read(to)));
  };
  at::Tensor parameter = read(update.parameter);
  std::vector<at::Tensor> slots;
  for (const at::Tensor& slot : update.slots) slots.push_back(read(slot));
  update.rule.apply(parameter, gradient.values.flatten(), slots,
                    {.gradient_scale = update.scale,
                     .clip_value = update.clip_value,
                     .weight_decay = update.weight_decay},
                    update.step);
  write(update.parameter, parameter);
  for (size_t i = 0; i < slots.size(); ++i) write(update.slots[i], slots[i]);
  for (const at::Tensor& copy : update.copies) write(copy, parameter);
}

void update_rows_by_libtorch(std::string_view rule, double learning_rate, Doubles constants,
                             double clip_value, const at::Tensor& parameter, at::IntArrayRef range,
                             const at::Tensor& rows, const at::Tensor& values, double scale,
                             double weight_decay, at::TensorList slots, at::TensorList copies,
                             bool past_caches, bool touched_rows_only) {
  with_rows(rule, learning_rate, constants, clip_value, parameter, range, rows, values, scale,
            weight_decay, slots, copies, past_caches, touched_rows_only,
            [&](const VariableUpdate& update) {
              if (touched_rows_only && !update.rule.whole_variables()) {
                return touch_rows_by_libtorch(update, {rows, values});
              }
              at::Tensor gradient = at::zeros_like(parameter);
              std::vector<int64_t> sizes = parameter.sizes().vec();
              sizes[0] = rows.numel();
              gradient.index_copy_(0, rows, values.view(sizes));
              apply_by_libtorch(update, elements(update, gradient));
            });
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def(
      "update_(str rule, float learning_rate, float[] constants, float clip_value, "
      "Tensor(a!)[] parameters, int[] ranges, Tensor[] gradients, int[] num_gradients, "
      "float[] scales, float[] weight_decays, Tensor(b!)[] slots, Tensor(c!)[] copies, "
      "int[] num_copies, bool past_caches) -> ()");
  library.def(
      "update_rows_(str rule, float learning_rate, float[] constants, float clip_value, "
      "Tensor(a!) parameter, int[] range, Tensor rows, Tensor values, float scale, "
      "float weight_decay, Tensor(b!)[] slots, Tensor(c!)[] copies, bool past_caches, "
      "bool touched_rows_only=False) -> ()");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) {
  library.impl("update_", update_cpu);
  library.impl("update_rows_", update_rows_cpu);
}

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("update_", update_by_libtorch);
  library.impl("update_rows_", update_rows_by_libtorch);
}

}  // namespace

void UpdateLists::clear() {
  parameters.clear();
  ranges.clear();
  gradients.clear();
  num_gradients.clear();
  scales.clear();
  weight_decays.clear();
  slots.clear();
  copies.clear();
  num_copies.clear();
}

void UpdateLists::add_variable(const at::Tensor& parameter, int64_t begin, int64_t end) {
  parameters.push_back(parameter);
  ranges.insert(ranges.end(), {begin, end});
  weight_decays.push_back(0);
  num_copies.push_back(0);
}

void UpdateLists::add_gradients(const std::vector<at::Tensor>& sources) {
  static const at::Tensor absent = at::empty({0});
  for (const at::Tensor& source : sources) {
    gradients.push_back(source.defined() ? source : absent);
  }
  num_gradients.push_back(static_cast<int64_t>(sources.size()));
}

void update_(const UpdateSettings& settings, const UpdateLists& lists) {
  if (lists.parameters.empty()) return;
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto update = kernels::find_operator<decltype(update_cpu)>("strata::update_");
  update.call(settings.rule, settings.step.learning_rate, settings.step.constants,
              settings.clip_value, lists.parameters, lists.ranges, lists.gradients,
              lists.num_gradients, lists.scales, lists.weight_decays, lists.slots, lists.copies,
              lists.num_copies, settings.past_caches);
}

void update_rows_(const UpdateSettings& settings, const UpdateLists& lists,
                  const RowGradient& gradient) {
  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto update =
      kernels::find_operator<decltype(update_rows_cpu)>("strata::update_rows_");
  update.call(settings.rule, settings.step.learning_rate, settings.step.constants,
              settings.clip_value, lists.parameters[0], lists.ranges, gradient.rows,
              gradient.values, lists.scales[0], lists.weight_decays[0], lists.slots, lists.copies,
              settings.past_caches, settings.touched_rows_only);
}

std::string text_of(const tensor::UpdateRule& rule) {
  return tensor::rule_to_json(rule.options()).dump();
}

namespace {

/// Gradient descent with a rate of -1.
UpdateSettings addition() {
  static const std::string rule = text_of(*tensor::SGDRule{}.make());
  static const tensor::PreparedStep step(-1, {});
  return {.rule = rule, .step = step};
}

}  // namespace

void update_touched_rows(const tensor::UpdateRule& rule, const at::Tensor& parameter,
                         const RowGradient& gradient, const std::vector<at::Tensor>& slots,
                         const tensor::UpdateModifiers& modifiers,
                         const tensor::PreparedStep& step) {
  touch_rows_by_libtorch({.rule = rule,
                          .step = step,
                          .parameter = parameter,
                          .begin = 0,
                          .end = parameter.numel(),
                          .gradients = {},
                          .slots = slots,
                          .copies = {},
                          .scale = modifiers.gradient_scale,
                          .weight_decay = modifiers.weight_decay,
                          .clip_value = modifiers.clip_value,
                          .past_caches = false},
                         gradient);
}

void add_scaled_(const UpdateLists& lists) { update_(addition(), lists); }
void add_scaled_rows_(const UpdateLists& lists, const RowGradient& gradient) {
  update_rows_(addition(), lists, gradient);
}

void average_(const UpdateLists& lists, double rate) {
  static const std::unique_ptr<tensor::UpdateRule> rule = tensor::MovingAverageRule{}.make();
  static const std::string text = text_of(*rule);
  const tensor::PreparedStep step = rule->prepare({.learning_rate = rate});
  update_({.rule = text, .step = step}, lists);
}

at::Tensor in_memory_order(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

}  // namespace strata::optimizers
