#include "keras_files/check_weights.h"

#include <algorithm>

#include "core/join.h"
#include "keras_files/model_layout.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  const auto size = [](int64_t each) { return each < 0 ? "?" : std::to_string(each); };
  return '[' + join(shape, size) + ']';
}

bool fits(const VariableSpec& spec, at::IntArrayRef shape) {
  return !spec.has_shape ||
         std::equal(shape.begin(), shape.end(), spec.shape.begin(), spec.shape.end(),
                    [](int64_t got, int64_t expected) { return expected < 0 || got == expected; });
}

}  // namespace

void check_weights(const Json& model, const WeightsGroup& weights, const std::string& source) {
  for (const SavedObject& object : saved_objects(model)) {
    if (!object.is_known) continue;
    const WeightsGroup* group = weights.find(object.path);
    const size_t count = group == nullptr ? 0 : group->vars.size();
    // Keras builds a layer that is another's activation only when it is called.
    if (count == 0 && object.path.ends_with("/activation")) continue;
    const std::string where =
        str_cat("[keras_files] ", source, ": ", object.path, "/vars, of layer '", object.name,
                "' (", object.class_name, "): ");
    STRATA_CHECK(count == object.variables.size(), kDataLoss, where, "got ", count,
                 " variables; expected ", object.variables.size(),
                 group == nullptr ? " (the group is missing)" : "");
    for (size_t i = 0; i < count; ++i) {
      const VariableSpec& spec = object.variables[i];
      STRATA_CHECK(fits(spec, group->vars[i].sizes()), kDataLoss, where, spec.name, " (", i,
                   "): got shape ", shape_text(group->vars[i].sizes().vec()), "; expected ",
                   shape_text(spec.shape));
    }
  }
}

WeightsGroup make_groups(const Json& model) {
  WeightsGroup weights;
  for (const SavedObject& object : saved_objects(model)) {
    weights.make(object.path).name = object.name;
  }
  return weights;
}

}  // namespace strata::keras_files
