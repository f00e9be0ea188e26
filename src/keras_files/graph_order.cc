#include <algorithm>
#include <unordered_map>
#include <utility>

#include "keras_files/call_graph.h"
#include "keras_files/keras_history.h"
#include "keras_files/layer_rules.h"
#include "keras_files/model_layout.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kDataLoss, "[keras_files] model config: " + what);
}

/// The symbolic tensors among a call's arguments, in Keras's order.
void collect_tensors(const Json& json, std::vector<KerasHistory>& to) {
  if (json.is_object()) {
    const Json* class_name = json.find("class_name");
    if (class_name != nullptr && class_name->is_string() &&
        class_name->as_string() == "__keras_tensor__") {
      const Json& history = json.at("config").at("keras_history");
      if (!is_keras_history(history)) fail("a tensor's keras_history is no [layer, call, output]");
      to.push_back(keras_history_of(history));
      const Json* dtype = find_value(json.at("config"), "dtype");
      if (dtype != nullptr && dtype->is_string()) to.back().dtype = dtype->as_string();
      return;
    }
  }
  for (const Json* child : children_of(json)) collect_tensors(*child, to);
}

/// The dtype of a layer's arithmetic.
std::string compute_dtype(const Json& config) {
  const Json* dtype = find_value(config, "dtype");
  const Json* policy = dtype == nullptr ? nullptr : find_value(*dtype, "config");
  const Json* name = policy == nullptr ? dtype : find_value(*policy, "name");
  if (name == nullptr || !name->is_string()) return "float32";
  const std::string& text = name->as_string();
  return text.starts_with("mixed_") ? text.substr(6) : text;
}

class Graph {
 public:
  explicit Graph(const Json& config) {
    for (const Json& entry : config.at("layers").as_array()) add_layer(entry);
    for (size_t layer = 0; layer < names_.size(); ++layer) connect(layer);
  }

  std::vector<std::string> order(const Json& config) {
    std::vector<KerasHistory> references, inputs;
    collect_keras_histories(config.at("output_layers"), references);
    collect_keras_histories(config.at("input_layers"), inputs);
    for (KerasHistory& output : references) {
      // For a nested functional model Keras counts calls from 1 here, and only here.
      const bool shifted = is_functional(*entries_[layer_of(output.layer)]);
      if (shifted) output.call = std::max<int64_t>(output.call - 1, 0);
    }
    std::vector<size_t> input_calls;
    for (const KerasHistory& input : inputs) {
      input_calls.push_back(first_call_[layer_of(input.layer)]);
    }
    std::vector<std::string> result;
    for (const size_t layer : calls_.in_order(values_of(references), input_calls).layers) {
      result.push_back(names_[layer]);
    }
    return result;
  }

 private:
  void add_layer(const Json& entry) {
    const Json& config = entry.at("config");
    const Json* name = entry.find("name");
    if (name == nullptr) name = config.find("name");
    if (name == nullptr) fail("a layer has no 'name'");
    const size_t layer = names_.size();
    if (!by_name_.emplace(name->as_string(), layer).second) {
      fail(str_cat("two layers are named '", name->as_string(), "'"));
    }
    const Json* nodes = entry.find("inbound_nodes");
    const size_t count = nodes == nullptr ? 0 : nodes->as_array().size();
    names_.push_back(name->as_string());
    entries_.push_back(&entry);
    first_call_.push_back(num_calls_);
    call_counts_.push_back(std::max<size_t>(count, 1));  // an input has no node in the file
    num_calls_ += call_counts_.back();
    const Json* class_name = entry.find("class_name");
    const bool known = class_name != nullptr && class_name->is_string() && is_layer(entry);
    calls_.add_layer(
        name->as_string(),
        known ? mask_rule(class_name->as_string(), [&] { return config; }) : MaskRule{});
  }

  void connect(size_t layer) {
    const Json* nodes = entries_[layer]->find("inbound_nodes");
    if (nodes == nullptr || nodes->as_array().empty()) {
      calls_.add_call({.layer = layer});
      return;
    }
    for (const Json& node : nodes->as_array()) calls_.add_call(call_for(layer, node));
  }

  CallGraph::Call call_for(size_t layer, const Json& node) const {
    static const Json kNothing;
    std::vector<KerasHistory> all, first, masks;
    bool is_alone = true;
    if (node.is_array()) {
      collect_keras_histories(node, all);  // the old form: [["dense", 0, 0, {}], ...]
      first = all;
    } else {
      const Json* args = find_value(node, "args");
      const Json* kwargs = find_value(node, "kwargs");
      const Json& by_name = kwargs == nullptr ? kNothing : *kwargs;
      collect_tensors(args == nullptr ? kNothing : *args, all);
      collect_tensors(by_name, all);
      if (args != nullptr && args->is_array() && !args->as_array().empty()) {
        collect_tensors(args->as_array()[0], first);
        is_alone = args->as_array().size() == 1 && args->as_array()[0].is_object();
      } else if (const Json* query = find_value(by_name, "query")) {
        collect_tensors(*query, first);
      }
      if (const Json* mask = find_value(by_name, "mask")) collect_tensors(*mask, masks);
      is_alone &= !by_name.is_object() || by_name.as_object().empty();
    }
    const std::string dtype = compute_dtype(entries_[layer]->at("config"));
    const bool differs = !first.empty() && !first[0].dtype.empty() && first[0].dtype != dtype;
    return {.layer = layer,
            .inputs = values_of(all),
            .first = values_of(first),
            .masks = values_of(masks),
            .is_plain = is_alone && all.size() == 1 && !differs,
            .is_cast = differs && first[0].dtype.find("float") != std::string::npos};
  }

  size_t layer_of(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) fail(str_cat("a tensor of '", name, "', which is no layer"));
    return found->second;
  }

  CallGraph::Value value_of(const KerasHistory& reference) const {
    const size_t layer = layer_of(reference.layer);
    if (reference.call < 0 || static_cast<size_t>(reference.call) >= call_counts_[layer]) {
      fail(str_cat("a tensor of call ", reference.call, " of layer '", reference.layer,
                   "', which is called ", call_counts_[layer], " times"));
    }
    return {.call = first_call_[layer] + static_cast<size_t>(reference.call),
            .output = static_cast<size_t>(std::max<int64_t>(reference.output, 0))};
  }

  std::vector<CallGraph::Value> values_of(const std::vector<KerasHistory>& references) const {
    std::vector<CallGraph::Value> values;
    for (const KerasHistory& each : references) values.push_back(value_of(each));
    return values;
  }

  CallGraph calls_;
  std::vector<std::string> names_;
  std::vector<const Json*> entries_;
  std::vector<size_t> first_call_, call_counts_;
  size_t num_calls_ = 0;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace

std::vector<std::string> canonical_order(const Json& config) { return Graph(config).order(config); }

}  // namespace strata::keras_files
