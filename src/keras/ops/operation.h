#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "keras/fusion.h"
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

  /// An option of the operation; null if it is not set.
  const Json& option(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  double number(const char* name, double otherwise) const;
  bool flag(const char* name) const;
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
};

// The tables, a file each.
std::span<const OperationRow> arithmetic_operations();
std::span<const OperationRow> reduction_operations();
std::span<const OperationRow> shape_operations();
std::span<const OperationRow> activation_operations();

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
class TableOperationImpl final : public OperationImpl, public Fusible {
 public:
  TableOperationImpl(const OperationRow& row, Json config, const std::string& name);

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
  const OperationRow& row_;
};

/// The operation, if that is what `layer` is; else null.
const OperationImpl* as_operation(const Layer& layer);

/// True for `{"module": "keras.src.ops.numpy", ...}`, and for what register_operation was given.
bool is_operation(const Json& object);
/// @throws Error kUnimplemented: an operation or option that is not known; names both.
Layer operation_from_config(const Json& object);

/// Of register_operation; empty if it does not exist for `object`.
OperationFunction find_registered_operation(const Json& object);
/// One of those.
std::shared_ptr<OperationImpl> make_registered_operation(OperationFunction function,
                                                         OperationImpl::Entry entry, Json config,
                                                         const std::string& name);

}  // namespace strata::keras::detail
