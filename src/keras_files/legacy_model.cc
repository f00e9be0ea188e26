#include "keras_files/legacy_model.h"

#include "keras_files/h5_input.h"
#include "strata/core/file_system.h"

namespace strata::keras_files {
namespace {

Json parse_attribute(const std::optional<std::string>& text, const std::string& source,
                     const char* name) {
  if (!text) return {};
  try {
    return Json::parse(*text);
  } catch (const Error& error) {
    throw Error(error.code(),
                str_cat("[keras_files] ", source, ": attribute ", name, ": ", error.what()));
  }
}

using Weights = std::vector<std::pair<std::string, at::Tensor>>;

Weights read_weights(h5::Input& input, const h5::Input::Object& group, const std::string& path) {
  Weights weights;
  const auto names = input.strings_attribute(group, "weight_names", path);
  if (!names) return weights;
  for (const std::string& name : *names) {
    const auto dataset = input.open(group, name);
    STRATA_CHECK(dataset && !dataset->is_group(), kDataLoss, "[keras_files] ", input.source(), ": ",
                 path, ": attribute weight_names: names '", name, "', which does not exist");
    weights.emplace_back(name, input.read(*dataset, path + '/' + name));
  }
  return weights;
}

}  // namespace

LegacyModel parse_legacy_model(std::span<const std::byte> bytes, const std::string& source,
                               const ReadLimits& limits) {
  h5::Input input(bytes, source, limits);
  const h5::Input::Object root = input.root();
  const auto attribute = [&](const char* name) { return input.string_attribute(root, name, ""); };
  const auto config = attribute("model_config");
  // Weights alone are at the root.
  const auto names_at_root = input.strings_attribute(root, "layer_names", "");
  STRATA_CHECK(config || names_at_root, kInvalidArgument, "[keras_files] ", source,
               ": got HDF5 without the attribute 'model_config'; expected a whole model. Files of "
               "weights alone that Keras 3 writes are named .weights.h5");
  LegacyModel model;
  model.model_config = parse_attribute(config, source, "model_config");
  model.training_config = parse_attribute(attribute("training_config"), source, "training_config");

  const std::string place = config ? "model_weights" : "";
  const auto weights = config ? input.open(root, place) : root;
  STRATA_CHECK(weights && weights->is_group(), kDataLoss, "[keras_files] ", source,
               ": got no group 'model_weights'; expected the layers' weights there");
  const h5::Input::Object& group = *weights;
  model.keras_version =
      attribute("keras_version")
          .value_or(input.string_attribute(group, "keras_version", place).value_or(""));
  const auto names = config ? input.strings_attribute(group, "layer_names", place) : names_at_root;
  STRATA_CHECK(names, kDataLoss, "[keras_files] ", source,
               ": model_weights: got no attribute 'layer_names'; expected the layers in order");
  for (const std::string& name : *names) {
    const auto layer = input.open(group, name);
    STRATA_CHECK(layer && layer->is_group(), kDataLoss, "[keras_files] ", source, ": ",
                 config ? "model_weights" : "weights", ": attribute layer_names: names '", name,
                 "', which does not exist");
    model.layers.push_back(
        {.name = name, .weights = read_weights(input, *layer, config ? place + '/' + name : name)});
  }
  if (const auto optimizer = input.open(root, "optimizer_weights");
      optimizer && optimizer->is_group()) {
    model.optimizer_weights = read_weights(input, *optimizer, "optimizer_weights");
  }
  return model;
}

LegacyModel load_legacy_model(const std::string& path, const ReadLimits& limits) {
  const std::string bytes = read_file(path);
  STRATA_CHECK(!bytes.starts_with("PK"), kInvalidArgument, "[keras_files] ", path,
               ": got a zip archive; expected HDF5. Is it a .keras file under another name?");
  return parse_legacy_model(std::as_bytes(std::span(bytes)), path, limits);
}

}  // namespace strata::keras_files
