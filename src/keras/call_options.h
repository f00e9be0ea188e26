#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "strata/core/json.h"

/// Tensors among the options of a call stand as `{"tensor": <index among its inputs>}`. Masks that
/// a call names itself, `{"mask": {"tensor": 1}}` or a list of such, stand behind all other inputs.
namespace strata::keras::detail {

/// The index behind `{"tensor": 0}`; -1 if `json` is something else.
int64_t tensor_index(const Json& json);
/// `{"tensor": index}`.
Json tensor_reference(size_t index);
/// The indices in `json`, whatever they are nested in, in Keras's order (objects by key).
void collect_tensor_indices(const Json& json, std::vector<size_t>& to);
/// A constant array in a call, `{"class_name": "__numpy__", "config": {"value": [[1.0]], "dtype":
/// "float32"}}`, on the CPU; undefined if `json` is something else.
/// @throws Error kDataLoss: rows of different lengths.
at::Tensor constant_tensor(const Json& json);
/// How many inputs are masks that `options` names.
size_t count_masks(const Json& options);

}  // namespace strata::keras::detail
