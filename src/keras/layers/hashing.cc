#include "strata/keras/layers/hashing.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>

#include "data/hashes.h"
#include "keras/input_dtypes.h"
#include "keras/layers/category_rows.h"
#include "keras/layers/lookup_layer.h"
#include "keras/layers/on_host.h"
#include "strata/data/texts.h"

namespace strata::layers {
namespace {

using MaskValue = decltype(HashingOptions::mask_value);

}  // namespace

// For the configs' conversions, which are found by their types.
struct HashMask {
  MaskValue value;
};
Json to_config(const HashMask& mask) {
  if (const auto* integer = std::get_if<int64_t>(&mask.value)) return *integer;
  if (const auto* text = std::get_if<std::string>(&mask.value)) return *text;
  return {};
}
void from_config(const Json& json, HashMask& mask) {
  mask.value = {};
  if (json.is_int()) mask.value = json.as_int();
  if (json.is_string()) mask.value = json.as_string();
  STRATA_CHECK(json.is_int() || json.is_string() || json.is_null(), kDataLoss, "got ", json.dump(),
               "; expected an integer, a text or null");
}

namespace {

struct HashingArguments {
  int64_t num_bins = 1;
  HashMask mask = {};
  HashingOptions options = {};
};
struct HashedCrossingArguments {
  int64_t num_bins = 1;
  HashedCrossingOptions options = {};
};

template <typename Config, keras::OneOf<HashingArguments, HashedCrossingArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  config("num_bins", layer.num_bins);
  config("output_mode", layer.options.output_mode);
  config.only("sparse", false);
  if constexpr (requires { layer.mask; }) {
    config("salt", layer.options.salt);
    config("mask_value", layer.mask);
  }
}

template <typename Options>
keras::LayerOptions id_options(const Options& options) {
  const bool ids = options.output_mode == CategoryMode::kInt;
  return {
      .name = options.name,
      .dtype = options.dtype.value_or(ids ? keras::DTypePolicy("int64") : keras::dtype_policy())};
}

bool is_text(at::ScalarType dtype) { return dtype == at::kByte; }

/// Of the values themselves: texts have their bytes along the last dimension.
std::vector<int64_t> value_sizes(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  if (is_text(x.scalar_type())) sizes.pop_back();
  return sizes;
}

void check_text(const at::Tensor& x, const std::string& layer) {
  STRATA_CHECK(!is_text(x.scalar_type()) || x.dim() > 0, kInvalidArgument, "[keras] layer '", layer,
               "': got a uint8 scalar; expected texts [..., width], or integers of another dtype");
}

void check_common(const char* class_name, int64_t num_bins, const CategoryMode& mode,
                  const keras::DTypePolicy& dtype) {
  mode.check(str_cat("[layers] ", class_name));
  STRATA_CHECK(num_bins > 0, kInvalidArgument, "[layers] ", class_name, ": The `num_bins` for `",
               class_name,
               "` cannot be `None` or non-positive values. Received: num_bins=", num_bins, ".");
  STRATA_CHECK(mode != CategoryMode::kInt || at::isIntegralType(dtype.compute_dtype(), false),
               kInvalidArgument, "[layers] ", class_name,
               ": When `output_mode=\"int\"`, `dtype` should be an integer type, 'int32' or "
               "'int64'. Received: dtype=",
               dtype.name());
}

/// The shape of what a layer gives for input of this shape and dtype.
keras::Shape binned_shape(keras::Shape shape, bool texts, const CategoryMode& mode,
                          int64_t num_bins) {
  if (texts) shape.pop_back();
  if (mode == CategoryMode::kInt) return shape;
  const bool one_hot = mode == CategoryMode::kOneHot;
  if (!shape.empty() && (!one_hot || (shape.size() > 1 && shape.back() == 1))) shape.pop_back();
  shape.push_back(num_bins);
  return shape;
}

/// Bins of values, `[...]` of int64, as numbers or rows.
at::Tensor binned(const at::Tensor& bins, const CategoryMode& mode, int64_t num_bins,
                  at::ScalarType dtype) {
  return mode == CategoryMode::kInt ? bins.to(dtype) : category_rows(bins, mode, num_bins, dtype);
}

class HashingImpl final : public keras::UnaryLayerImpl, public keras::detail::TakesInputDtypes {
 public:
  explicit HashingImpl(const HashingArguments& arguments)
      : UnaryLayerImpl(id_options(arguments.options)), arguments_(arguments) {
    check_common("Hashing", arguments.num_bins, arguments.options.output_mode, dtype());
  }
  std::string_view class_name() const override { return "Hashing"; }
  void note_input_dtypes(const std::vector<at::ScalarType>& inputs) override {
    takes_texts_ = is_text(inputs.at(0));
  }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit(config, arguments_);
    config("sparse", false);
  }
  bool autocast() const override { return false; }

  uint64_t hash(std::string_view text) const {
    const auto& salt = arguments_.options.salt;
    if (!salt) return data::fingerprint64(text);
    return data::sip_hash({static_cast<uint64_t>(salt->first), static_cast<uint64_t>(salt->second)},
                          text);
  }

  /// @param masked  Whether a value has bin 0 for itself.
  int64_t bin(std::string_view text, bool masked) const {
    const bool reserved = mask_bin() > 0;
    if (reserved && masked) return 0;
    const auto bins = static_cast<uint64_t>(arguments_.num_bins - mask_bin());
    return static_cast<int64_t>(hash(text) % bins) + mask_bin();
  }
  int64_t mask_bin() const {
    const bool has_mask = !std::holds_alternative<std::monostate>(arguments_.mask.value);
    return has_mask && arguments_.num_bins > 1 ? 1 : 0;
  }

  void fill(const at::Tensor& x, at::Tensor& bins) const {
    auto to = elements_of<int64_t>(bins).begin();
    if (is_text(x.scalar_type())) {
      const auto* mask = std::get_if<std::string>(&arguments_.mask.value);
      for (const std::string& text : data::texts_of(x)) {
        *to++ = bin(text, mask != nullptr && text == *mask);
      }
      return;
    }
    const auto* mask = std::get_if<int64_t>(&arguments_.mask.value);
    for (const int64_t value : integers_of(x)) {
      *to++ = bin(std::to_string(value), mask != nullptr && value == *mask);
    }
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    check_text(x, name());
    const bool texts = is_text(x.scalar_type());
    STRATA_CHECK(std::holds_alternative<std::monostate>(arguments_.mask.value) ||
                     std::holds_alternative<std::string>(arguments_.mask.value) == texts,
                 kInvalidArgument, "[keras] layer '", name(), "': got ",
                 texts ? "texts" : "numbers", " and mask_value=", to_config(arguments_.mask).dump(),
                 "; expected both of one kind");
    const auto self = std::static_pointer_cast<const HashingImpl>(shared_from_this());
    const at::Tensor bins =
        on_host("strata::hash", {x}, value_sizes(x), at::kLong,
                [self](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                  self->fill(inputs.at(0), result);
                });
    return binned(bins, arguments_.options.output_mode, arguments_.num_bins,
                  dtype().compute_dtype());
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    return binned_shape(input, takes_texts_, arguments_.options.output_mode, arguments_.num_bins);
  }

  const HashingArguments arguments_;
  bool takes_texts_ = false;
};

class HashedCrossingImpl final : public keras::LayerImpl, public keras::detail::TakesInputDtypes {
 public:
  explicit HashedCrossingImpl(const HashedCrossingArguments& arguments)
      : LayerImpl(id_options(arguments.options)), arguments_(arguments) {
    const CategoryMode& mode = arguments.options.output_mode;
    check_common("HashedCrossing", arguments.num_bins, mode, dtype());
    STRATA_CHECK(mode == CategoryMode::kInt || mode == CategoryMode::kOneHot, kInvalidArgument,
                 "[layers] HashedCrossing: got output_mode='", mode.word(),
                 "'; expected 'int' or 'one_hot'");
  }
  std::string_view class_name() const override { return "HashedCrossing"; }
  void note_input_dtypes(const std::vector<at::ScalarType>& inputs) override {
    takes_texts_ = is_text(inputs.at(0));
  }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit(config, arguments_);
    config("sparse", false);
  }
  bool writes_trainable() const override { return false; }
  bool autocast() const override { return false; }

  void check(const keras::Tensors& inputs) const {
    STRATA_CHECK(
        inputs.size() >= 2, kInvalidArgument, "[keras] layer '", name(),
        "': `HashedCrossing` should be called on at least two inputs. Received: ", inputs.size());
    for (const at::Tensor& x : inputs) {
      check_text(x, name());
      STRATA_CHECK(at::isIntegralType(x.scalar_type(), false), kInvalidArgument, "[keras] layer '",
                   name(),
                   "': All `HashedCrossing` inputs should have an integer or string dtype. "
                   "Received: ",
                   toString(x.scalar_type()));
      const std::vector<int64_t> sizes = value_sizes(x);
      STRATA_CHECK(sizes.size() < 2 || (sizes.size() == 2 && sizes[1] == 1), kInvalidArgument,
                   "[keras] layer '", name(),
                   "': All `HashedCrossing` inputs should have shape `()`, `(batch_size)` or "
                   "`(batch_size, 1)`. Received: ",
                   keras::to_string(sizes));
      STRATA_CHECK(sizes == value_sizes(inputs[0]), kInvalidArgument, "[keras] layer '", name(),
                   "': All `HashedCrossing` inputs should have equal shape. Received: ",
                   keras::to_string(value_sizes(inputs[0])), " and ", keras::to_string(sizes));
    }
  }

  /// Integers are their own fingerprints.
  static std::vector<uint64_t> fingerprints(const at::Tensor& x) {
    std::vector<uint64_t> prints;
    if (is_text(x.scalar_type())) {
      for (const std::string& text : data::texts_of(x)) prints.push_back(data::fingerprint64(text));
    } else {
      for (const int64_t value : integers_of(x)) prints.push_back(static_cast<uint64_t>(value));
    }
    return prints;
  }

  keras::Tensors call(const keras::Tensors& inputs, const keras::Call&) override {
    check(inputs);
    const auto num_bins = static_cast<uint64_t>(arguments_.num_bins);
    const at::Tensor bins = on_host(
        "strata::crossed_hash", inputs, value_sizes(inputs[0]), at::kLong,
        [num_bins](const std::vector<at::Tensor>& given, at::Tensor& result) {
          constexpr uint64_t kHashKey = 0xDECAFCAFFE;  // TensorFlow's default
          std::vector<uint64_t> hashes(static_cast<size_t>(result.numel()), kHashKey);
          for (const at::Tensor& x : given) {
            const std::vector<uint64_t> prints = fingerprints(x);
            std::ranges::transform(hashes, prints, hashes.begin(), data::fingerprint_cat);
          }
          std::ranges::transform(hashes, elements_of<int64_t>(result).begin(), [&](uint64_t hash) {
            return static_cast<int64_t>(hash % num_bins);
          });
        });
    return {
        binned(bins, arguments_.options.output_mode, arguments_.num_bins, dtype().compute_dtype())};
  }

  std::vector<keras::Shape> compute_output_shapes(const std::vector<keras::Shape>& inputs,
                                                  const Json&) const override {
    return {binned_shape(inputs.at(0), takes_texts_, arguments_.options.output_mode,
                         arguments_.num_bins)};
  }

  const HashedCrossingArguments arguments_;
  bool takes_texts_ = false;
};

}  // namespace

Hashing::Hashing(int64_t num_bins, const HashingOptions& options)
    : Layer(std::make_shared<HashingImpl>(
          HashingArguments{num_bins, {options.mask_value}, options})) {}
at::Tensor Hashing::operator()(const std::vector<std::string>& texts) const {
  return (*this)(data::text_tensor(texts));
}

HashedCrossing::HashedCrossing(int64_t num_bins, const HashedCrossingOptions& options)
    : Layer(std::make_shared<HashedCrossingImpl>(HashedCrossingArguments{num_bins, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> hashing_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("Hashing", HashingImpl, HashingArguments),
          STRATA_LAYER_CLASS("HashedCrossing", HashedCrossingImpl, HashedCrossingArguments)};
}

}  // namespace strata::keras
