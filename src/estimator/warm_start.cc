#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "core/join.h"
#include "estimator/estimator_impl.h"
#include "estimator/vocabulary_file.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

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

/// `old_value` with the rows of its words where `info` has them now, like `variable`.
at::Tensor moved_to_vocabulary(const std::string& name, const at::Tensor& old_value,
                               const at::Tensor& variable, const VocabInfo& info) {
  STRATA_CHECK((info.axis == 0 || info.axis == 1) && info.axis < variable.dim() &&
                   old_value.dim() == variable.dim(),
               kInvalidArgument, "[estimator] warm start: got axis ", info.axis,
               " for the vocabulary of '", name, "', whose shape is ", variable.sizes(),
               "; expected 0 or 1");
  const std::string where = str_cat("[estimator] warm start of '", name, "'");
  const auto old_words = read_vocabulary_file(where, info.old_vocab, info.old_vocab_size);
  const auto new_words = read_vocabulary_file(where, info.new_vocab, info.new_vocab_size);
  const auto rows = static_cast<int64_t>(new_words.size()) + info.num_oov_buckets;
  std::vector<int64_t> expected = old_value.sizes().vec();
  expected[static_cast<size_t>(info.axis)] = rows;
  STRATA_CHECK(variable.sizes() == expected, kInvalidArgument, "[estimator] warm start: '", name,
               "' has the shape ", variable.sizes(), "; expected ", at::IntArrayRef(expected), ": ",
               new_words.size(), " words and ", info.num_oov_buckets,
               " buckets, and what the checkpoint has in the other dimensions");
  std::map<std::string_view, int64_t> places;
  for (size_t i = 0; i < old_words.size(); ++i) {
    places.emplace(old_words[i], static_cast<int64_t>(i));
  }
  at::Tensor value = at::zeros_like(variable);
  if (info.backup_initializer) {
    value.copy_((*info.backup_initializer)(variable.sizes(), variable.scalar_type()));
  }
  for (size_t i = 0; i < new_words.size(); ++i) {
    const auto found = places.find(new_words[i]);
    if (found == places.end() || found->second >= old_value.size(info.axis)) continue;
    value.select(info.axis, static_cast<int64_t>(i))
        .copy_(old_value.select(info.axis, found->second));
  }
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
  for (const auto& [name, info] : settings.vocabularies) {
    STRATA_CHECK(std::ranges::find(model.store().variables(), name, &NamedVariable::name) !=
                     model.store().variables().end(),
                 kInvalidArgument, "[estimator] warm start: got a vocabulary of '", name,
                 "', which is no variable of the model; it has ",
                 join(model.store().variables(), &NamedVariable::name));
  }
  model.store().strategy().scope([&] {
    for (const auto& [name, named] : model.store().variables()) {
      Variable variable = named;
      const auto vocabulary = settings.vocabularies.find(name);
      if (vocabulary != settings.vocabularies.end()) {
        variable.assign(moved_to_vocabulary(name,
                                            load_variable(path, kWarmStartGroup + name_there(name)),
                                            variable.value(), vocabulary->second));
        continue;
      }
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
