#include <algorithm>
#include <functional>
#include <utility>

#include "strata/core/error.h"
#include "strata/keras_files/model_layout.h"

namespace strata::keras_files {
namespace {

struct Call {
  size_t layer;
  int64_t depth = 0;
  std::vector<size_t> parents = {};  // calls
  enum { kNew, kOpen, kDone } state = kNew;
};

struct Reference {
  std::string layer;
  int64_t call = 0;
};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kDataLoss, "[keras_files] model config: " + what);
}

bool is_reference(const Json& json) {
  return json.is_array() && json.as_array().size() >= 3 && json.as_array()[0].is_string() &&
         json.as_array()[1].is_int() && json.as_array()[2].is_int();
}

Reference reference_of(const Json& json) {
  return {.layer = json.as_array()[0].as_string(), .call = json.as_array()[1].as_int()};
}

/// Members by name: so Keras flattens dictionaries.
std::vector<const Json*> children_of(const Json& json) {
  std::vector<const Json*> children;
  if (json.is_array()) {
    for (const Json& item : json.as_array()) children.push_back(&item);
  } else if (json.is_object()) {
    std::vector<const std::pair<std::string, Json>*> members;
    for (const auto& member : json.as_object()) members.push_back(&member);
    std::ranges::sort(members, {}, [](const auto* member) { return member->first; });
    for (const auto* member : members) children.push_back(&member->second);
  }
  return children;
}

/// The [layer, call, output] triples of `input_layers` and `output_layers`, whatever they stand in.
void collect_references(const Json& json, std::vector<Reference>& to) {
  if (is_reference(json)) {
    to.push_back(reference_of(json));
    return;
  }
  for (const Json* child : children_of(json)) collect_references(*child, to);
}

/// The symbolic tensors among a call's arguments, in Keras's order.
void collect_tensors(const Json& json, std::vector<Reference>& to) {
  if (json.is_object()) {
    const Json* class_name = json.find("class_name");
    if (class_name != nullptr && class_name->is_string() &&
        class_name->as_string() == "__keras_tensor__") {
      const Json& history = json.at("config").at("keras_history");
      if (!is_reference(history)) fail("a tensor's keras_history is no [layer, call, output]");
      to.push_back(reference_of(history));
      return;
    }
  }
  for (const Json* child : children_of(json)) collect_tensors(*child, to);
}

class Graph {
 public:
  explicit Graph(const Json& config) {
    for (const Json& entry : config.at("layers").as_array()) add_layer(entry);
    for (size_t layer = 0; layer < names_.size(); ++layer) connect(layer);
  }

  std::vector<std::string> order(const Json& config) {
    std::vector<Reference> outputs, inputs;
    collect_references(config.at("output_layers"), outputs);
    collect_references(config.at("input_layers"), inputs);
    for (const Reference& output : outputs) {
      const size_t layer = layer_of(output.layer);
      // For a nested functional model Keras counts calls from 1 here, and only here.
      const bool shifted = is_functional(*entries_[layer]);
      visit(call_of({.layer = output.layer,
                     .call = shifted ? std::max<int64_t>(output.call - 1, 0) : output.call}));
    }
    spread_depths();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t layer = layer_of(inputs[i].layer);
      if (depth_[layer] >= 0) continue;
      depth_[layer] = 0;  // before all others there, in the order of the inputs
      index_[layer] = static_cast<int64_t>(i) - static_cast<int64_t>(inputs.size());
    }
    std::vector<size_t> order;
    for (size_t layer = 0; layer < names_.size(); ++layer) {
      if (depth_[layer] >= 0) order.push_back(layer);
    }
    std::ranges::stable_sort(
        order, {}, [&](size_t layer) { return std::pair(-depth_[layer], index_[layer]); });
    std::vector<std::string> result;
    for (const size_t layer : order) result.push_back(names_[layer]);
    return result;
  }

 private:
  void add_layer(const Json& entry) {
    const Json* name = entry.find("name");
    if (name == nullptr) name = entry.at("config").find("name");
    if (name == nullptr) fail("a layer has no 'name'");
    const Json* nodes = entry.find("inbound_nodes");
    const size_t layer = names_.size();
    if (!by_name_.emplace(name->as_string(), layer).second) {
      fail(str_cat("two layers are named '", name->as_string(), "'"));
    }
    const size_t count = nodes == nullptr ? 0 : nodes->as_array().size();
    names_.push_back(name->as_string());
    entries_.push_back(&entry);
    first_call_.push_back(calls_.size());
    num_calls_.push_back(std::max<size_t>(count, 1));  // an input has no node in the file
    calls_.insert(calls_.end(), num_calls_.back(), Call{.layer = layer});
    depth_.push_back(-1);
    index_.push_back(-1);
  }

  void connect(size_t layer) {
    const Json* nodes = entries_[layer]->find("inbound_nodes");
    if (nodes == nullptr) return;
    for (size_t i = 0; i < nodes->as_array().size(); ++i) {
      const Json& node = nodes->as_array()[i];
      std::vector<Reference> tensors;
      if (node.is_array()) {
        collect_references(node, tensors);  // the old form: [["dense", 0, 0, {}], ...]
      } else {
        if (const Json* args = node.find("args")) collect_tensors(*args, tensors);
        if (const Json* kwargs = node.find("kwargs")) collect_tensors(*kwargs, tensors);
      }
      for (const Reference& tensor : tensors) {
        calls_[first_call_[layer] + i].parents.push_back(call_of(tensor));
      }
    }
  }

  size_t layer_of(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) fail(str_cat("a tensor of '", name, "', which is no layer"));
    return found->second;
  }

  size_t call_of(const Reference& reference) const {
    const size_t layer = layer_of(reference.layer);
    if (reference.call < 0 || static_cast<size_t>(reference.call) >= num_calls_[layer]) {
      fail(str_cat("a tensor of call ", reference.call, " of layer '", reference.layer,
                   "', which is called ", num_calls_[layer], " times"));
    }
    return first_call_[layer] + static_cast<size_t>(reference.call);
  }

  /// Depth-first without recursion: a graph may be as deep as the file likes.
  void visit(size_t root) {
    struct Step {
      size_t call;
      size_t next = 0;
    };
    std::vector<Step> stack;
    const auto enter = [&](size_t call) {
      Call& here = calls_[call];
      if (here.state == Call::kDone) return;
      if (here.state == Call::kOpen) fail(str_cat("a cycle through '", names_[here.layer], "'"));
      here.state = Call::kOpen;
      if (index_[here.layer] < 0) index_[here.layer] = next_index_++;
      stack.push_back({.call = call});
    };
    enter(root);
    while (!stack.empty()) {
      Call& here = calls_[stack.back().call];
      if (stack.back().next < here.parents.size()) {
        enter(here.parents[stack.back().next++]);
      } else {
        here.state = Call::kDone;
        finished_.push_back(stack.back().call);
        stack.pop_back();
      }
    }
  }

  void spread_depths() {
    for (auto call = finished_.rbegin(); call != finished_.rend(); ++call) {
      Call& here = calls_[*call];
      const int64_t depth = std::max(here.depth, depth_[here.layer]);
      depth_[here.layer] = here.depth = depth;
      for (const size_t parent : here.parents) {
        calls_[parent].depth = std::max(calls_[parent].depth, depth + 1);
      }
    }
  }

  std::vector<std::string> names_;
  std::vector<const Json*> entries_;
  std::vector<size_t> first_call_, num_calls_;
  std::vector<int64_t> depth_, index_;  // by layer; -1: not reached
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<Call> calls_;
  std::vector<size_t> finished_;
  int64_t next_index_ = 0;
};

}  // namespace

std::vector<std::string> canonical_order(const Json& config) { return Graph(config).order(config); }

}  // namespace strata::keras_files
