#include <ATen/TensorOperators.h>

#include <cmath>

#include "keras/default_name.h"
#include "keras/layers/attention_heads.h"
#include "strata/keras/layers/attention.h"

namespace strata::layers {
namespace {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

struct GroupQueryAttentionArguments {
  int64_t head_dim = 0;
  int64_t num_query_heads = 0;
  int64_t num_key_value_heads = 0;
  GroupQueryAttentionOptions options = {};
};
template <typename Config, typename Arguments>
void visit_group_query(Config& config, Arguments& arguments) {
  config("head_dim", arguments.head_dim);
  config("num_query_heads", arguments.num_query_heads);
  config("num_key_value_heads", arguments.num_key_value_heads);
  visit_heads(config, arguments.options);
}
void visit(keras::ConfigReader& config, GroupQueryAttentionArguments& arguments) {
  visit_group_query(config, arguments);
  read_new_options(config, arguments.options);
}

keras::LayerOptions named_as_keras(const GroupQueryAttentionOptions& options) {
  keras::LayerOptions base = keras::base_options(options);
  // The class has another name in Python than in files.
  if (base.name.empty()) base.name = keras::detail::default_name("GroupedQueryAttention");
  return base;
}

class GroupQueryAttentionImpl final : public HeadsImpl {
 public:
  explicit GroupQueryAttentionImpl(const GroupQueryAttentionArguments& arguments)
      : HeadsImpl(named_as_keras(arguments.options)), arguments_(arguments) {
    STRATA_CHECK(arguments.num_key_value_heads > 0 && arguments.num_query_heads > 0 &&
                     arguments.num_query_heads % arguments.num_key_value_heads == 0,
                 kInvalidArgument,
                 "[layers] GroupQueryAttention: `num_query_heads` must be divisible by "
                 "`num_key_value_heads`. Received: ",
                 arguments.num_query_heads, " and ", arguments.num_key_value_heads);
    check_window(arguments.options.sliding_window, "GroupQueryAttention");
  }

  std::string_view class_name() const override { return "GroupQueryAttention"; }

 private:
  void describe(keras::ConfigWriter& config) const override {
    visit_group_query(config, arguments_);
    write_new_options(config, arguments_.options);
  }

  void check_width(const Shape& query, const Shape& value) const {
    STRATA_CHECK(query.size() == 3 && value.size() == 3, kInvalidArgument, "[keras] Layer \"",
                 name(), "\": expected query and value of 3 dimensions. Received: query_shape=",
                 keras::to_string(query), ", value_shape=", keras::to_string(value));
    STRATA_CHECK(
        query.back() == value.back(), kInvalidArgument, "[keras] Layer \"", name(),
        "\": The last dimension of `query_shape` and `value_shape` must be equal, but are ",
        query.back(), ", ", value.back(), ". Received: query_shape=", keras::to_string(query),
        ", value_shape=", keras::to_string(value));
  }

  void build_heads(const Shape& query, const Shape& key, const Shape& value) override {
    check_width(query, value);
    check_key(value, key);
    const GroupQueryAttentionOptions& options = arguments_.options;
    const int64_t size = arguments_.head_dim;
    const auto dense = [&](const char* path, const char* name, const char* equation,
                           const Shape& output, const char* bias_axes, const Shape& input) {
      EinsumDense layer(equation, output, dense_options(options, name, bias_axes, dtype()));
      layer->ensure_built({input});
      return track(path, layer);
    };
    const int64_t heads = arguments_.num_query_heads;
    const int64_t shared = arguments_.num_key_value_heads;
    query_.emplace(
        dense("_query_dense", "query", "bqm,muh->bquh", {kNone, heads, size}, "uh", query));
    key_.emplace(dense("_key_dense", "key", "bkm,mvh->bkvh", {kNone, shared, size}, "vh", key));
    if (options.use_gate) {
      gate_.emplace(
          dense("_gate_dense", "gate", "bqm,muh->bquh", {kNone, heads, size}, "uh", query));
    }
    value_.emplace(
        dense("_value_dense", "value", "bkm,mvh->bkvh", {kNone, shared, size}, "vh", value));
    output_.emplace(dense("_output_dense", "attention_output", "bquh,uhm->bqm",
                          {kNone, query.back()}, "m", {kNone, kNone, heads, size}));
  }

  Settings settings() const override {
    return {.dropout = arguments_.options.dropout,
            .scale = 1 / std::sqrt(static_cast<double>(arguments_.head_dim)),
            .sliding_window = arguments_.options.sliding_window,
            .axes = {1}};
  }

  Heads project(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) override {
    return project_with(*query_, *key_, *value_, query, key, value);
  }
  at::Tensor finish(const at::Tensor& heads, const at::Tensor& query) override {
    return (*output_)(gate_ ? heads * (*gate_)(query) : heads);
  }
  bool takes_query_mask() const override { return true; }
  regularizers::Regularizer activity_regularizer() const override {
    return arguments_.options.activity_regularizer;
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override {
    check(inputs);
    check_width(inputs[0], inputs[1]);
    check_key(inputs[1], inputs.at(places(inputs.size(), options).key));
    std::vector<Shape> shapes{inputs[0]};
    if (!options.is_null() && asked(options.find("return_attention_scores"))) {
      shapes.push_back({inputs[0][0], arguments_.num_query_heads, inputs[0][1], inputs[1][1]});
    }
    return shapes;
  }

  GroupQueryAttentionArguments arguments_;
  std::optional<EinsumDense> query_, key_, gate_, value_, output_;
};

}  // namespace

GroupQueryAttention::GroupQueryAttention(int64_t head_dim, int64_t num_query_heads,
                                         int64_t num_key_value_heads,
                                         const GroupQueryAttentionOptions& options)
    : QueryValueLayer(std::make_shared<GroupQueryAttentionImpl>(
          GroupQueryAttentionArguments{head_dim, num_query_heads, num_key_value_heads, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> group_query_attention_layers() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("GroupQueryAttention", GroupQueryAttentionImpl,
                             GroupQueryAttentionArguments),
          STRATA_LAYER_CLASS("GroupedQueryAttention", GroupQueryAttentionImpl,
                             GroupQueryAttentionArguments)};
}

}  // namespace strata::keras
