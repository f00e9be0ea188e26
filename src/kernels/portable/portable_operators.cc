// What replica functions with portable bits may run, and how.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

#include "kernels/portable/portable_bits.h"
#include "kernels/portable/register_portable.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata::kernels::portable {

void refuse_operator(std::string_view name) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[strategy] run with .bits = \"portable\": got ", name,
                      ", which has no kernel here whose bits are the same on all processors; "
                      "expected an operator of docs/kernels.md, \"The same bits on all "
                      "processors\"; compute it outside of run, or leave .bits out"));
}

namespace {

/// Operators of libtorch's whose results are the same on all processors: they move values, compare
/// them, or round once an element (IEEE 754: + - * / and square roots), in an order that no vector
/// width changes. Names without the `_` of what works in place; all overloads.
const std::unordered_set<std::string_view>& exact_operators() {
  static const std::unordered_set<std::string_view> names = {
      // They move values.
      "_copy_from",
      "_index_put_impl",
      "_local_scalar_dense",
      "_reshape_alias",
      "_reshape_copy",
      "_to_copy",
      "_unsafe_view",
      "alias",
      "arange",
      "as_strided",
      "cat",
      "clone",
      "col2im",
      "constant_pad_nd",
      "copy",
      "detach",
      "diag_embed",
      "diagonal",
      "diagonal_backward",
      "embedding",
      "empty",
      "empty_like",
      "empty_permuted",
      "empty_strided",
      "expand",
      "eye",
      "fill",
      "flip",
      "full",
      "full_like",
      "gather",
      "im2col",
      "index",
      "index_copy",
      "index_fill",
      "index_put",
      "index_select",
      "lift",
      "lift_fresh",
      "masked_fill",
      "masked_select",
      "new_empty",
      "new_empty_strided",
      "new_full",
      "new_ones",
      "new_zeros",
      "nonzero",
      "ones",
      "ones_like",
      "permute",
      "pixel_shuffle",
      "reflection_pad1d",
      "reflection_pad2d",
      "repeat",
      "replication_pad1d",
      "replication_pad2d",
      "resize",
      "roll",
      "scalar_tensor",
      "scatter",
      "select",
      "select_backward",
      "set",
      "slice",
      "slice_backward",
      "split",
      "split_with_sizes",
      "squeeze",
      "stack",
      "t",
      "transpose",
      "tril",
      "triu",
      "unbind",
      "unfold",
      "unfold_backward",
      "unsafe_split",
      "unsqueeze",
      "upsample_nearest1d",
      "upsample_nearest2d",
      "upsample_nearest3d",
      "view",
      "where",
      "zero",
      "zeros",
      "zeros_like",
      // They compare.
      "all",
      "amax",
      "amin",
      "any",
      "argmax",
      "argmin",
      "argsort",
      "bitwise_and",
      "bitwise_not",
      "bitwise_or",
      "bitwise_xor",
      "bucketize",
      "clamp",
      "clamp_max",
      "clamp_min",
      "eq",
      "equal",
      "ge",
      "gt",
      "is_nonzero",
      "isfinite",
      "isinf",
      "isnan",
      "isneginf",
      "isposinf",
      "le",
      "logical_and",
      "logical_not",
      "logical_or",
      "logical_xor",
      "lt",
      "max",
      "max_pool1d",
      "max_pool2d_with_indices",
      "max_pool2d_with_indices_backward",
      "max_pool3d_with_indices",
      "max_pool3d_with_indices_backward",
      "maximum",
      "min",
      "minimum",
      "ne",
      "searchsorted",
      "signbit",
      "sort",
      "topk",
      "unique_dim",
      "_unique2",
      // They round an element once.
      "abs",
      "ceil",
      "div",
      "floor",
      "frac",
      "hardtanh",
      "hardtanh_backward",
      "leaky_relu",
      "leaky_relu_backward",
      "mul",
      "neg",
      "reciprocal",
      "relu",
      "round",
      "rsqrt",
      "sgn",
      "sign",
      "sqrt",
      "threshold",
      "threshold_backward",
      "trunc",
      // They add one element after another, whatever the vector width.
      "_adaptive_avg_pool2d",
      "_adaptive_avg_pool2d_backward",
      "_adaptive_avg_pool3d",
      "_adaptive_avg_pool3d_backward",
      "avg_pool2d",
      "avg_pool2d_backward",
      "avg_pool3d",
      "avg_pool3d_backward",
      "cumsum",
      "embedding_dense_backward",
      "index_add",
      "scatter_add",
      // They draw bits: a stream's, or those of a generator of libtorch's.
      "bernoulli",
      "random",
      "randperm",
  };
  return names;
}

bool is_exact(const c10::OperatorName& name) {
  std::string_view base = name.name;
  if (!base.starts_with("aten::")) return false;
  base.remove_prefix(std::string_view("aten::").size());
  if (exact_operators().contains(base)) return true;
  if (!base.ends_with('_')) return false;
  base.remove_suffix(1);
  return exact_operators().contains(base);
}

bool holds_floats(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && (tensor.is_floating_point() || tensor.is_complex());
}

bool holds_floats(const c10::IValue& value) {
  if (value.isTensor()) return holds_floats(value.toTensor());
  if (!value.isList()) return false;
  const auto list = value.toListRef();
  return std::any_of(list.begin(), list.end(),
                     [](const c10::IValue& each) { return holds_floats(each); });
}

/// Whole numbers are exact in any order. What has or gives others is refused.
void only_whole_numbers(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  const auto check = [&](size_t count) {
    const bool floats = std::any_of(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end(),
                                    [](const c10::IValue& each) { return holds_floats(each); });
    if (floats) refuse_operator(c10::toString(op.operator_name()));
  };
  check(op.schema().arguments().size());
  op.redispatchBoxed(keys & kBelowPortableKey, stack);
  check(op.schema().returns().size());
}

/// libtorch counts this key as a device, so the generic kernels of operators would be taken at it
/// (see tensor/replica_operators.cc): each operator that has a kernel for CPUs is registered. This
/// library's own have the same bits everywhere.
void register_the_rest(torch::Library& of_aten, torch::Library& of_strata) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const bool ours = name.name.starts_with("strata::");
    if (!ours && !name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(kPortableKey) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      continue;
    }
    std::string full = name.name;
    if (!name.overload_name.empty()) full.append(".").append(name.overload_name);
    torch::Library& library = ours ? of_strata : of_aten;
    library.impl(full.c_str(),
                 ours || is_exact(name)
                     ? torch::CppFunction::makeFallthrough()
                     : torch::CppFunction::makeFromBoxedFunction<&only_whole_numbers>());
  }
}

/// For the life of the program.
torch::Library& library_of(const char* space) {
  return *new torch::Library(torch::Library::IMPL, space, kPortableKey, __FILE__, __LINE__);
}

void register_all() {
  library_of("_").fallback(torch::CppFunction::makeFromBoxedFunction<&only_whole_numbers>());
  torch::Library& library = library_of("aten");
  register_sums(library);
  register_products(library);
  register_convolution(library);
  register_functions(library);
  register_random(library);
  register_compositions(library);
  // What is registered above is left alone.
  register_the_rest(library, library_of("strata"));
}

}  // namespace
}  // namespace strata::kernels::portable

namespace strata::kernels {

bool use_portable_kernels() {
  static const bool done = (portable::register_all(), true);
  return done;
}

}  // namespace strata::kernels
