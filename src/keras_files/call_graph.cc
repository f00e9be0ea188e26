#include "keras_files/call_graph.h"

#include <algorithm>
#include <utility>

#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

constexpr int64_t kNone = -1;

}  // namespace

size_t CallGraph::add_layer(std::string name, const MaskRule& rule) {
  names_.push_back(std::move(name));
  rules_.push_back(rule);
  return names_.size() - 1;
}

size_t CallGraph::add_call(Call call) {
  std::vector<size_t>& parents = parents_.emplace_back();
  for (const Value& value : call.inputs) parents.push_back(value.call);
  calls_.push_back(std::move(call));
  return calls_.size() - 1;
}

/// Depth-first without recursion: a graph may be as deep as the file likes.
CallGraph::Visit CallGraph::visit(const std::vector<Value>& outputs) const {
  struct Step {
    size_t call;
    size_t next = 0;
  };
  enum State : char { kNew, kOpen, kDone };
  Visit result{.index = std::vector<int64_t>(names_.size(), kNone)};
  std::vector<State> states(calls_.size(), kNew);
  std::vector<Step> stack;
  int64_t next_index = 0;
  const auto enter = [&](size_t call) {
    if (states[call] == kDone) return;
    const size_t layer = calls_[call].layer;
    STRATA_CHECK(states[call] == kNew, kDataLoss, "[keras_files] model config: a cycle through '",
                 names_[layer], "'");
    states[call] = kOpen;
    if (result.index[layer] < 0) result.index[layer] = next_index++;
    stack.push_back({.call = call});
  };
  for (const Value& output : outputs) {
    enter(output.call);
    while (!stack.empty()) {
      const size_t call = stack.back().call;
      if (stack.back().next < parents_[call].size()) {
        enter(parents_[call][stack.back().next++]);
      } else {
        states[call] = kDone;
        result.finished.push_back(call);
        stack.pop_back();
      }
    }
  }
  return result;
}

/// A call of an operation that makes a mask; `calls` may hold kNone.
int64_t CallGraph::operation(const std::vector<int64_t>& calls) {
  Call call{.layer = add_layer("", {})};
  for (const int64_t each : calls) {
    if (each != kNone) call.inputs.push_back({.call = static_cast<size_t>(each)});
  }
  return static_cast<int64_t>(add_call(std::move(call)));
}

/// The call that gives the mask of what `call` gives.
/// @param given  Those of its first argument's tensors, or the mask that it is given.
int64_t CallGraph::mask_for(size_t number, const std::vector<int64_t>& given) {
  const Call call = calls_[number];  // a copy: calls are added
  const auto tensor = [&](size_t i) {
    const auto value = static_cast<int64_t>(call.first.at(i).call);
    return call.is_cast ? operation({value}) : value;
  };
  const auto has = [](int64_t mask) { return mask != kNone; };
  const int64_t first = given.empty() ? kNone : given[0];
  switch (rules_[call.layer].makes) {
    case MaskRule::Makes::kNothing:
      return kNone;
    case MaskRule::Makes::kSame:
      return first;
    case MaskRule::Makes::kConverted:
      return first == kNone ? kNone : operation({first});
    case MaskRule::Makes::kNotEqual:
      return call.first.empty() ? kNone : operation({tensor(0)});
    case MaskRule::Makes::kAny:
      return call.first.empty() ? kNone : operation({operation({tensor(0)})});
    case MaskRule::Makes::kEither: {
      if (!std::ranges::all_of(given, has)) return kNone;
      int64_t mask = first;
      for (size_t i = 1; i < given.size(); ++i) mask = operation({mask, given[i]});
      return mask;
    }
    case MaskRule::Makes::kConcatenated: {
      if (given.size() != call.first.size() || std::ranges::none_of(given, has)) return kNone;
      std::vector<int64_t> masks;
      for (size_t i = 0; i < given.size(); ++i) {
        const int64_t like = operation({tensor(i)});  // ones_like, zeros_like
        masks.push_back(given[i] == kNone ? like : operation({operation({given[i]}), like}));
      }
      return operation({operation(masks)});
    }
  }
  return kNone;
}

/// Adds the operations that make masks, and makes them arguments of the calls that take them.
/// @param calls  Each after what it takes.
void CallGraph::add_masks(const std::vector<size_t>& calls) {
  std::vector<int64_t> masks(calls_.size(), kNone);  // of each call's first output, or of all
  const auto mask_of = [&](const Value& value) {
    const bool has = value.output == 0 || !rules_[calls_[value.call].layer].first_output_only;
    return has ? masks[value.call] : kNone;
  };
  for (const size_t number : calls) {
    const Call& call = calls_[number];
    const MaskRule rule = rules_[call.layer];
    std::vector<int64_t> given;
    if (call.masks.empty()) {
      for (const Value& value : call.first) given.push_back(mask_of(value));
      if (rule.takes_mask && (rule.takes_it_always || call.is_plain)) {
        for (const int64_t mask : given) {
          if (mask != kNone) parents_[number].push_back(static_cast<size_t>(mask));
        }
      }
    } else {
      for (const Value& mask : call.masks) given.push_back(static_cast<int64_t>(mask.call));
    }
    masks[number] = mask_for(number, given);
  }
}

CallGraph::Order CallGraph::in_order(const std::vector<Value>& outputs,
                                     const std::vector<size_t>& inputs) {
  Visit visited = visit(outputs);
  const size_t num_layers = names_.size();
  const size_t num_calls = calls_.size();
  const bool masked = std::ranges::any_of(visited.finished, [&](size_t call) {
    const MaskRule::Makes makes = rules_[calls_[call].layer].makes;
    return makes == MaskRule::Makes::kNotEqual || makes == MaskRule::Makes::kAny ||
           !calls_[call].masks.empty();
  });
  if (masked) {
    add_masks(visited.finished);
    visited = visit(outputs);
  }

  std::vector<int64_t> call_depth(calls_.size(), 0);
  std::vector<int64_t> layer_depth(names_.size(), kNone);
  Order order;
  std::vector<char> is_seen(calls_.size(), 0);
  const auto see = [&](size_t call) {  // calls of a depth run as they were first seen
    if (is_seen[call] == 0 && call < num_calls) order.calls.push_back(call);
    is_seen[call] = 1;
  };
  for (auto it = visited.finished.rbegin(); it != visited.finished.rend(); ++it) {
    const size_t layer = calls_[*it].layer;
    const int64_t depth = std::max(call_depth[*it], layer_depth[layer]);
    layer_depth[layer] = call_depth[*it] = depth;
    see(*it);
    for (const size_t parent : parents_[*it]) {
      see(parent);
      call_depth[parent] = std::max(call_depth[parent], depth + 1);
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t layer = calls_[inputs[i]].layer;
    if (layer_depth[layer] >= 0) continue;
    layer_depth[layer] = 0;  // before all others there, in the order of the inputs
    visited.index[layer] = static_cast<int64_t>(i) - static_cast<int64_t>(inputs.size());
  }

  for (size_t layer = 0; layer < num_layers; ++layer) {
    if (layer_depth[layer] >= 0) order.layers.push_back(layer);
  }
  std::ranges::stable_sort(order.layers, {}, [&](size_t layer) {
    return std::pair(-layer_depth[layer], visited.index[layer]);
  });
  std::ranges::stable_sort(order.calls, {}, [&](size_t call) { return -call_depth[call]; });
  return order;
}

}  // namespace strata::keras_files
