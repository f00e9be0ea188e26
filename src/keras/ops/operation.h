#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "keras/fusion.h"
#include "keras/input_dtypes.h"
#include "strata/keras/layer_impl.h"
#include "strata/keras/layer_registry.h"

/// Operations: nodes of a graph that Keras's files keep beside the layers. A table says what each
/// computes; one LayerImpl implements all of them.
///
/// Arguments of a call are Call::options: `{"args": [{"tensor": 0}, 1.0], "kwargs": {...}}`, with
/// Keras's `__slice__` and the like as they stand in files.
namespace strata::keras::detail {

/// One call as a row of the table sees it.
class OperationCall {
 public:
  OperationCall(const Tensors& inputs, const Json& options, const Json& config)
      : inputs_(inputs), options_(options), config_(config) {}

  /// Argument `i`, or the one of that name: the tensor, or the number as a tensor without
  /// dimensions, of the dtype that it takes beside the tensors.
  at::Tensor tensor(size_t i, const char* name = "") const;
  /// The same where it is a list of tensors.
  Tensors tensors(size_t i, const char* name = "") const;
  /// Argument `i` unchanged; null if it does not exist.
  const Json& argument(size_t i, const char* name = "") const;
  bool has(size_t i, const char* name) const { return !argument(i, name).is_null(); }
  /// Those that the call gives by name.
  std::vector<std::pair<std::string, Json>> named_arguments() const;
  /// All arguments by place, each a tensor (Einsum, Meshgrid).
  Tensors all_tensors() const;

  /// An option of the operation; null if it is not set.
  const Json& option(const char* name) const;
  /// Whether the option is there, be it null.
  bool wrote(const char* name) const { return config_.find(name) != nullptr; }
  int64_t integer(const char* name, int64_t otherwise) const;
  double number(const char* name, double otherwise) const;
  bool flag(const char* name) const;
  std::string text(const char* name, std::string_view otherwise) const;
  /// One number or a list of them; none: empty.
  std::vector<int64_t> integers(const char* name) const;
  std::vector<int64_t> axes() const { return integers("axis"); }

 private:
  at::Tensor tensor_of(const Json& json) const;

  const Tensors& inputs_;
  const Json& options_;
  const Json& config_;
};

/// The dtype of what comes out.
enum class OutputDtype {
  kPromoted,  ///< What the tensors have in common.
  kFloating,  ///< That, or float32 for integers.
  kBool,
  kInt32,
  kOption,  ///< The option `dtype`; none: as kPromoted.
  kTried,   ///< Found, like the shapes, by a computation with stand-ins.
};

struct OperationRow {
  std::string_view name;    ///< "Add"
  std::string_view module;  ///< "numpy": keras.src.ops.numpy
  OutputDtype dtype;
  at::Tensor (*compute)(const OperationCall& call);
  /// Null: found by trying.
  Shape (*shape)(const std::vector<Shape>& inputs, const OperationCall& call) = nullptr;
  /// Whether inputs broadcast and nothing else happens to the shape.
  bool elementwise = false;
  /// Its options by Keras's names, divided by spaces.
  std::string_view options = {};
  /// In place of `compute`, for those with several outputs.
  Tensors (*compute_all)(const OperationCall& call) = nullptr;
  /// Whether sizes of the outputs depend on values: they are not known before.
  bool free_sizes = false;
};

/// Rows whose shapes and dtypes are found by trying, of one output and of several.
constexpr OperationRow one(std::string_view module, std::string_view name,
                           at::Tensor (*compute)(const OperationCall&),
                           std::string_view options = {}) {
  return {.name = name,
          .module = module,
          .dtype = OutputDtype::kTried,
          .compute = compute,
          .options = options};
}
constexpr OperationRow several(std::string_view module, std::string_view name,
                               Tensors (*compute)(const OperationCall&),
                               std::string_view options = {}) {
  return {.name = name,
          .module = module,
          .dtype = OutputDtype::kTried,
          .compute = nullptr,
          .options = options,
          .compute_all = compute};
}

// The tables, a file each.
std::span<const OperationRow> arithmetic_operations();
std::span<const OperationRow> reduction_operations();
std::span<const OperationRow> shape_operations();
std::span<const OperationRow> activation_operations();
std::span<const OperationRow> elementary_operations();
std::span<const OperationRow> statistics_operations();
std::span<const OperationRow> array_operations();
std::span<const OperationRow> index_operations();
std::span<const OperationRow> sorting_operations();
std::span<const OperationRow> linear_algebra_operations();
std::span<const OperationRow> signal_operations();
std::span<const OperationRow> window_operations();
std::span<const OperationRow> network_operations();
std::span<const OperationRow> image_operations();
std::span<const OperationRow> decode_operations();

/// What a row computes.
Tensors compute_operation(const OperationRow& row, const OperationCall& call);
/// What an operation computes that is no node: `object` has its class and config.
/// @throws Error kUnimplemented: as operation_from_config.
Tensors compute_operation(const Json& object, const Tensors& inputs, const Json& call_options);

/// Null if it does not exist.
const OperationRow* find_operation(std::string_view class_name);

class OperationImpl : public LayerImpl {
 public:
  /// What a file says of it beside its config.
  struct Entry {
    std::string class_name;
    Json module;
    std::string registered_name;
  };

  /// @param config  Its options without `name`.
  OperationImpl(Entry entry, Json config, const std::string& name);

  std::string_view class_name() const override { return entry_.class_name; }
  std::string_view module() const override {
    if (entry_.module.is_null()) return {};
    return entry_.module.as_string();
  }
  const Entry& entry() const { return entry_; }
  /// What a file's `config` has: name and options, nothing else.
  Json operation_config() const;

 protected:
  const Json& options() const { return config_; }
  void describe(ConfigWriter& config) const override;
  /// What the inputs have in common.
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override;
  bool autocast() const override { return false; }

 private:
  Entry entry_;
  Json config_;
};

/// One of a table.
class TableOperationImpl final : public OperationImpl, public Fusible, public TakesInputDtypes {
 public:
  TableOperationImpl(const OperationRow& row, Json config, const std::string& name);

  void note_input_dtypes(const std::vector<at::ScalarType>& inputs) override {
    input_dtypes_ = inputs;
  }

  FusionRole fusion_role() const override {
    return row_.name == "Add" ? FusionRole::kSum : FusionRole::kNone;
  }

 protected:
  Tensors call(const Tensors& inputs, const Call& call) override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override;
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override;

 private:
  /// Shapes and dtypes of the outputs, by a computation with stand-ins of `size` (the first
  /// dimension) and `other` where sizes are not known.
  Tensors try_with(const std::vector<Shape>& inputs, const Json& options, int64_t size,
                   int64_t other) const;

  const OperationRow& row_;
  std::vector<at::ScalarType> input_dtypes_;
  mutable std::vector<at::ScalarType> tried_dtypes_;  // of the last trial
};

/// The operation, if that is what `layer` is; else null.
const OperationImpl* as_operation(const Layer& layer);

/// True for `{"module": "keras.src.ops.numpy", ...}`, and for what register_operation was given.
bool is_operation(const Json& object);
/// @throws Error kUnimplemented: an operation or option that is not known; names both.
Layer operation_from_config(const Json& object);

/// Of register_operation; empty if it does not exist for `object`.
OperationFunction find_registered_operation(const Json& object);
/// What it computes.
Tensors call_registered_operation(const OperationFunction& function, const Tensors& inputs,
                                  const Json& call_options, const Json& config);
/// One of those.
std::shared_ptr<OperationImpl> make_registered_operation(OperationFunction function,
                                                         OperationImpl::Entry entry, Json config,
                                                         const std::string& name);

}  // namespace strata::keras::detail
