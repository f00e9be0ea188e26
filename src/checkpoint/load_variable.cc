#include "strata/checkpoint/checkpoint.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <variant>

#include "checkpoint/describe.h"
#include "checkpoint/reader.h"
#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata {
namespace {

std::string checkpoint_at(const std::string& path) {
  if (is_checkpoint(path)) return path;
  const auto info = file_system_of(path).info(path);
  const auto newest = info && info->is_folder ? latest_checkpoint(path) : std::nullopt;
  STRATA_CHECK(newest, kNotFound, "[checkpoint] ", path,
               ": got neither a checkpoint nor a folder that holds a whole one");
  return *newest;
}

/// Nullopt: a text.
std::optional<at::Tensor> scalar_of(const CheckpointValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value))
    return at::scalar_tensor(*boolean, at::kBool);
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return at::scalar_tensor(*integer, at::kLong);
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return at::scalar_tensor(*number, at::kDouble);
  }
  return std::nullopt;
}

std::vector<CheckpointVariable> variables_of(const checkpoint::Manifest& manifest) {
  std::vector<CheckpointVariable> all;
  std::unordered_map<std::string, const checkpoint::ManifestTensor*> by_name;
  for (const checkpoint::ManifestTensor& tensor : manifest.tensors) by_name[tensor.name] = &tensor;
  for (const checkpoint::ManifestTensor& tensor : manifest.tensors) {
    const auto held = by_name.find(tensor.same_as.empty() ? tensor.name : tensor.same_as);
    STRATA_CHECK(held != by_name.end() && held->second->same_as.empty(), kDataLoss,
                 "[checkpoint] tensor '", tensor.name, "' refers to '", tensor.same_as,
                 "', which does not exist");
    all.push_back(
        {.name = tensor.name, .dtype = held->second->dtype, .shape = held->second->shape});
  }
  for (const auto& [name, value] : manifest.values) {
    const auto scalar = scalar_of(value);
    if (scalar) all.push_back({.name = name, .dtype = scalar->scalar_type(), .shape = {}});
  }
  std::ranges::sort(all, {}, &CheckpointVariable::name);
  return all;
}

}  // namespace

std::vector<CheckpointVariable> list_variables(const std::string& path) {
  return variables_of(checkpoint::read_manifest(checkpoint_at(path)));
}

at::Tensor load_variable(const std::string& path, const std::string& name) {
  const std::string folder = checkpoint_at(path);
  const checkpoint::Manifest manifest = checkpoint::read_manifest(folder);
  for (const checkpoint::ManifestTensor& tensor : manifest.tensors) {
    if (tensor.name == name) {
      return checkpoint::load_tensor(folder, manifest, checkpoint::held_as(manifest, tensor));
    }
  }
  for (const auto& [each, value] : manifest.values) {
    if (each != name) continue;
    const auto scalar = scalar_of(value);
    if (scalar) return *scalar;
  }
  constexpr size_t kShown = 12;
  std::vector<CheckpointVariable> all = variables_of(manifest);
  const size_t more = all.size() - std::min(all.size(), kShown);
  all.resize(all.size() - more);
  throw Error(ErrorCode::kNotFound,
              str_cat("[checkpoint] load_variable: ", folder, ": got the name '", name,
                      "'; expected one of ", join(all, &CheckpointVariable::name),
                      more > 0 ? str_cat(" and ", more, " more") : ""));
}

}  // namespace strata
