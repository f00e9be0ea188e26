#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "estimator/estimator_impl.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/core/error.h"

namespace strata::estimator::detail {
namespace {

constexpr const char* kWarmStartGroup = "model/";

/// The names that settings choose.
class ChosenNames {
 public:
  explicit ChosenNames(const WarmStartSettings& settings) {
    for (const std::string& text : settings.variables) {
      try {
        expressions_.emplace_back(text);
      } catch (const std::regex_error& error) {
        throw Error(ErrorCode::kInvalidArgument,
                    str_cat("[estimator] warm start: got '", text,
                            "' as a regular expression: ", error.what()));
      }
    }
  }
  bool contains(const std::string& name) const {
    return std::ranges::any_of(expressions_, [&](const std::regex& expression) {
      return std::regex_search(name, expression, std::regex_constants::match_continuous);
    });
  }

 private:
  std::vector<std::regex> expressions_;
};

at::Tensor load_like(const std::string& path, const std::string& name, at::IntArrayRef sizes) {
  const at::Tensor value = load_variable(path, name);
  STRATA_CHECK(value.sizes() == sizes, kInvalidArgument, "[estimator] warm start: got '", name,
               "' of shape ", value.sizes(), " in ", path, "; expected ", sizes,
               ". Choose other variables");
  return value;
}

}  // namespace

void warm_start(BuiltModel& model, const WarmStartSettings& settings, int64_t& global_step) {
  if (settings.checkpoint.empty()) return;
  const std::string path =
      latest_checkpoint(settings.checkpoint, kCheckpointName).value_or(settings.checkpoint);
  const ChosenNames chosen(settings);
  const auto name_there = [&](const std::string& name) {
    const auto found = settings.previous_names.find(name);
    return found == settings.previous_names.end() ? name : found->second;
  };
  model.store().strategy().scope([&] {
    for (const auto& [name, named] : model.store().variables()) {
      Variable variable = named;
      if (!settings.all_names && !variable.trainable()) continue;
      if (!chosen.contains(name)) continue;
      variable.assign(load_like(path, kWarmStartGroup + name_there(name), variable.sizes()));
    }
    if (!settings.all_names) return;
    if (chosen.contains("global_step")) {
      global_step = load_variable(path, "global_step").item<int64_t>();
    }
    for (const auto& [name, optimizer] : model.store().optimizers()) {
      const auto slots = optimizer->slots();
      for (size_t i = 0; i < slots.size(); ++i) {
        const std::string slot = name + '/' + model.store().slot_name(slots[i].first);
        if (!chosen.contains(slot)) continue;
        optimizer->set_slot(i, load_like(path, name_there(slot), slots[i].second.sizes()));
      }
      const std::string iterations = name + "/iterations";
      if (chosen.contains(iterations)) {
        optimizer->set_iterations(load_variable(path, name_there(iterations)).item<int64_t>());
      }
    }
  });
}

}  // namespace strata::estimator::detail
