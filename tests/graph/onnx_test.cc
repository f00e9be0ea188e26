// What each rule of the ONNX export computes, in onnxruntime; what the export refuses.
#include "strata/graph/onnx.h"

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/onnx/onnx_proto.h"
#include "graph/onnx/rules.h"
#include "support/expect_error.h"
#include "support/onnxruntime.h"
#include "support/proto_contract.h"
#include "support/temp_folder.h"

namespace strata::graph {
namespace {

using at::Tensor;
using torch::indexing::Slice;
using Tensors = std::vector<Tensor>;
namespace F = torch::nn::functional;

struct Case {
  std::string name;
  InferenceFunction function;
  Tensors inputs;
  bool any_batch = true;
};

Tensor numbers(at::IntArrayRef sizes) { return torch::randn(sizes); }

/// A function of one tensor `[batch, 4, 6]`.
Case of_one(std::string name, std::function<Tensor(const Tensor&)> function) {
  return {std::move(name),
          [function = std::move(function)](const Tensors& x) { return Tensors{function(x[0])}; },
          {numbers({3, 4, 6})}};
}

Case of_two(std::string name, std::function<Tensor(const Tensor&, const Tensor&)> function) {
  return {
      std::move(name),
      [function = std::move(function)](const Tensors& x) { return Tensors{function(x[0], x[1])}; },
      {numbers({3, 4, 6}), numbers({3, 4, 6})}};
}

Case of_image(std::string name, std::function<Tensor(const Tensor&)> function) {
  Case made = of_one(std::move(name), std::move(function));
  made.inputs = {numbers({3, 4, 8, 12})};
  return made;
}

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases = {
      of_one("relu_and_in_place", [](const Tensor& x) { return (x * 2).relu_().add_(1); }),
      of_one("sigmoid_of_numbers",
             [](const Tensor& x) { return torch::sigmoid(x) + torch::tanh(x) - torch::neg(x); }),
      of_one("powers",
             [](const Tensor& x) {
               return x.abs().sqrt() + x.square() + (x.abs() + 1).rsqrt() + x.abs().pow(1.5) +
                      torch::pow(2, x);
             }),
      of_one("logarithms",
             [](const Tensor& x) {
               const Tensor y = x.abs() + 0.5;
               return y.log() + y.log2() + y.log10() + y.log1p() + x.expm1() + x.exp2() + x.exp();
             }),
      of_one("angles",
             [](const Tensor& x) {
               const Tensor y = x.tanh() * 0.9;
               return y.sin() + y.cos() + y.tan() + y.asin() + y.acos() + y.atan() + y.sinh() +
                      y.cosh() + y.asinh() + (y.abs() + 1.5).acosh() + y.atanh();
             }),
      of_one("rounding",
             [](const Tensor& x) {
               return x.floor() + x.ceil() * 2 + x.round() * 3 + x.sign() + x.reciprocal().erf();
             }),
      of_one("gelu", [](const Tensor& x) { return F::gelu(x) + torch::gelu(x, "tanh"); }),
      of_one("silu_mish",
             [](const Tensor& x) { return torch::silu(x) + torch::mish(x) + torch::hardswish(x); }),
      of_one("elus",
             [](const Tensor& x) {
               return torch::elu(x) + torch::selu(x) + torch::celu(x, 0.7) + torch::elu(x, 2);
             }),
      of_one("softplus",
             [](const Tensor& x) {
               return torch::softplus(x) + torch::softplus(x, 2) + torch::log_sigmoid(x);
             }),
      of_one("bounds",
             [](const Tensor& x) {
               return torch::relu6(x * 4) + x.clamp(-0.5, 0.25) + x.clamp_min(0.1) +
                      x.clamp_max(0.3) + torch::hardtanh(x) + torch::hardsigmoid(x) +
                      torch::leaky_relu(x, 0.2) + torch::threshold(x, 0.1, -3);
             }),
      of_one("shrinks",
             [](const Tensor& x) { return torch::hardshrink(x) + torch::softshrink(x, 0.3); }),
      of_one("infinities",
             [](const Tensor& x) {
               const Tensor y = torch::where(x > 1, INFINITY, x);
               return torch::isinf(y).bitwise_xor(x > 0).to(torch::kFloat) + torch::isnan(y - y);
             }),
      of_one("integers",
             [](const Tensor& x) {
               const Tensor y = (x * 10).to(torch::kLong);
               return torch::floor_divide(y, 3) + y.remainder(4) + torch::div(y, 7, "trunc") +
                      torch::div(y, 2, "floor") + y * y - 1;
             }),
      of_one("half",
             [](const Tensor& x) { return (x.round().to(torch::kHalf) * 2).to(torch::kFloat); }),
      of_one("double", [](const Tensor& x) { return x.to(torch::kDouble).exp() / 3; }),
      of_one("prelu", [w = numbers({4})](const Tensor& x) { return torch::prelu(x, w); }),
      of_two("sums",
             [](const Tensor& x, const Tensor& y) {
               return torch::add(x, y, 2) - torch::sub(x, y, 0.5) + torch::rsub(x, y) + 3 * (1 - x);
             }),
      of_two("quotients",
             [](const Tensor& x, const Tensor& y) {
               const Tensor z = y.abs() + 0.5;
               return x / z + x.remainder(z) + x.fmod(z) + torch::div(x, z, "floor") +
                      torch::div(x, z, "trunc") + torch::maximum(x, y) * torch::minimum(x, y);
             }),
      of_two("comparisons",
             [](const Tensor& x, const Tensor& y) {
               return (x < y).to(torch::kFloat) + (x <= 0.5).to(torch::kFloat) * 2 +
                      (x > y).to(torch::kFloat) * 4 + (y >= 0).to(torch::kFloat) * 8 +
                      x.sign().eq(y.sign()).to(torch::kFloat) * 16 + (x.sign() != 1);
             }),
      of_two("logic",
             [](const Tensor& x, const Tensor& y) {
               const Tensor a = x > 0, b = y > 0;
               return torch::where((a & b) | ~a, x, y).masked_fill(a.logical_xor(b), 7) +
                      a.logical_and(b.logical_not()).logical_or(b) + torch::isnan(x / 0 * 0);
             }),
  };
  return cases;
}

std::vector<Case> shape_cases() {
  return {
      of_one("views",
             [](const Tensor& x) {
               return x.view({-1, 24}).unsqueeze(1).squeeze(1).reshape({-1, 6, 4}).flatten(1);
             }),
      of_one("orders",
             [](const Tensor& x) {
               return x.permute({2, 0, 1}).transpose(0, 1).contiguous() + x.transpose(1, 2);
             }),
      of_one("batch_in_the_middle",
             [](const Tensor& x) {
               const Tensor rows = x.transpose(0, 1).reshape({-1, 6});
               return rows.view({4, -1, 6}).transpose(0, 1).reshape({-1, 24});
             }),
      of_one("slices",
             [](const Tensor& x) {
               return x.index({Slice(), Slice(1, 3), Slice(0, torch::indexing::None, 2)}) +
                      x.select(1, -1).unsqueeze(1).narrow(2, 1, 3);
             }),
      of_one("last_example", [](const Tensor& x) { return x - x.narrow(0, x.size(0) - 1, 1); }),
      of_one("parts",
             [](const Tensor& x) {
               const auto split = x.split(2, 1);
               const auto sizes = x.split_with_sizes({1, 5}, 2);
               const auto each = x.unbind(1);
               return torch::cat({split[0], split[1] * 2}, 1) +
                      torch::cat({sizes[1], sizes[0]}, 2) +
                      torch::stack({each[3], each[2], each[1], each[0]}, 1);
             }),
      of_one("expansions",
             [](const Tensor& x) {
               return x.narrow(1, 0, 1).expand({-1, 4, -1}) + x.repeat({1, 1, 2}).narrow(2, 3, 6) +
                      x.narrow(2, 0, 1).expand_as(x);
             }),
      of_one("turns",
             [](const Tensor& x) {
               return x.flip({1, 2}) + x.roll({1, -2}, {1, 2}).cumsum(1);
             }),
      of_one("pads",
             [](const Tensor& x) {
               return torch::constant_pad_nd(x, {1, 2, 0, 1}, 0.5) +
                      F::pad(F::pad(x, F::PadFuncOptions({1, 2}).mode(torch::kReflect)),
                             F::PadFuncOptions({0, 0, 0, 1}));
             }),
      of_one("edges",
             [](const Tensor& x) {
               return torch::replication_pad1d(x, {1, 2}) + torch::reflection_pad1d(x, {2, 1}) +
                      torch::upsample_nearest1d(x, std::vector<int64_t>{9}) +
                      torch::upsample_linear1d(x, std::vector<int64_t>{9}, false);
             }),
      of_image("image_edges",
               [](const Tensor& x) {
                 return torch::replication_pad2d(x, {1, 2, 0, 1}) +
                        torch::reflection_pad2d(x, {2, 1, 1, 0}) +
                        torch::upsample_bicubic2d(x, std::vector<int64_t>{9, 15}, false);
               }),
      of_one("factories",
             [](const Tensor& x) {
               const Tensor ranks = torch::arange(x.size(0) * 2).view({-1, 2}).sum(1);
               return torch::zeros_like(x) + torch::ones({x.size(0), 4, 6}) +
                      torch::full_like(x, 0.5) + ranks.view({-1, 1, 1}) + x.new_zeros({6}) +
                      torch::arange(6) + torch::ones({4, 6}).tril();
             }),
      of_one("triangles", [](const Tensor& x) { return x.tril(1) - x.triu(-1); }),
      of_one("writes",
             [](const Tensor& x) {
               const Tensor y = x.clone();
               y.select(1, 2).mul_(3);
               y.slice(2, 1, 3).fill_(7);
               y.transpose(1, 2).select(1, 0).add_(x.select(2, 5));
               y.view({-1, 24}).narrow(1, 3, 2).zero_();
               return y;
             }),
      of_one("write_behind_a_view",
             [](const Tensor& x) {
               const Tensor y = x * 2;
               const Tensor row = y.select(1, 1);
               y.add_(1);
               return row + y.select(1, 0);
             }),
      {"indices",
       [table = numbers({5, 3})](const Tensors& x) {
         const Tensor& i = x[0];
         return Tensors{torch::embedding(table, i), table.index_select(0, i.view({-1})),
                        table.gather(0, i.narrow(1, 0, 3))};
       },
       {torch::randint(0, 5, {3, 4})}},
      of_image("images",
               [](const Tensor& x) {
                 return torch::pixel_shuffle(x, 2) +
                        torch::upsample_nearest2d(x, std::vector<int64_t>{16, 24}).narrow(1, 0, 1) +
                        torch::upsample_bilinear2d(x, std::vector<int64_t>{16, 24}, false)
                            .narrow(1, 1, 1) +
                        torch::upsample_bilinear2d(x, std::vector<int64_t>{16, 24}, true)
                            .narrow(1, 2, 1);
               }),
  };
}

std::vector<Case> reduction_cases() {
  return {
      of_one(
          "sums_of_dims",
          [](const Tensor& x) {
            return x.sum({1}) + x.mean({1}) + x.sum({1, 2}, true).squeeze(1) + x.sum() + x.mean();
          }),
      of_one("extremes",
             [](const Tensor& x) {
               return x.amax({1}) + x.amin({1}) + std::get<0>(x.max(1)) + std::get<0>(x.min(1)) +
                      x.max() + x.min() + x.argmax(1) + std::get<1>(x.max(1)) * 10 +
                      x.argmin(1, true).squeeze(1) + x.prod(1);
             }),
      of_one("truth",
             [](const Tensor& x) {
               return (x > 0.5).any(1).to(torch::kFloat) + (x > -1).all(1).to(torch::kFloat) * 2;
             }),
      of_one("spreads",
             [](const Tensor& x) {
               return x.var(1) + x.var(1, false) + x.std(1) + x.logsumexp(1) +
                      torch::linalg_vector_norm(x, 2, 1) + torch::linalg_vector_norm(x, 1, 1);
             }),
      of_one("softmax",
             [](const Tensor& x) { return x.softmax(-1) + x.log_softmax(1).softmax(0); }),
  };
}

std::vector<Case> layer_cases() {
  const Tensor w = numbers({6, 5}), b = numbers({5});
  return {
      of_one("products",
             [=](const Tensor& x) {
               const Tensor rows = x.reshape({-1, 6});
               return torch::addmm(b, rows, w, 0.5, 2) + torch::mm(rows, w) +
                      F::linear(rows, w.t(), b) + torch::matmul(x, w).reshape({-1, 5}) +
                      (torch::mv(rows, w.select(1, 0)) +
                       torch::addmv(rows.select(1, 0), rows, w.select(1, 1), 2, 0.5) +
                       torch::dot(b, b))
                          .unsqueeze(1);
             }),
      of_two("batches_of_products",
             [](const Tensor& x, const Tensor& y) {
               return torch::bmm(x, y.transpose(1, 2)) +
                      torch::baddbmm(x.narrow(2, 0, 4), x, y.transpose(1, 2), 2, 0.5) +
                      torch::einsum("bij,bkj->bik", {x, y});
             }),
      of_image("convolutions",
               [w = numbers({6, 2, 3, 3}), b = numbers({6}),
                t = numbers({6, 3, 2, 2})](const Tensor& x) {
                 const Tensor y = torch::conv2d(x, w, b, {2, 1}, {1, 1}, {1, 2}, /*groups=*/2);
                 return torch::conv_transpose2d(y, t, {}, 2, 0, 1);
               }),
      of_one("convolution_of_rows",
             [w = numbers({3, 4, 2})](const Tensor& x) { return torch::conv1d(x, w, {}, 1, 1); }),
      of_image("pools",
               [](const Tensor& x) {
                 return torch::max_pool2d(x, 2) + torch::avg_pool2d(x, 2) +
                        torch::max_pool2d(x, 3, 2, 1) +
                        torch::avg_pool2d(x, 3, 2, 1, false, /*count_include_pad=*/false) +
                        torch::avg_pool2d(x, 3, 2, 1) + torch::adaptive_avg_pool2d(x, {1, 1}) +
                        torch::adaptive_avg_pool2d(x, {4, 6}) +
                        std::get<0>(torch::adaptive_max_pool2d(x, {4, 6}));
               }),
      of_one(
          "pools_of_rows",
          [](const Tensor& x) { return torch::avg_pool1d(x, 3, 2) + torch::max_pool1d(x, 3, 2); }),
      {"volumes",
       [](const Tensors& x) {
         return Tensors{torch::max_pool3d(x[0], 2) + torch::avg_pool3d(x[0], 2) +
                            torch::adaptive_avg_pool3d(x[0], {2, 3, 2}) +
                            std::get<0>(torch::adaptive_max_pool3d(x[0], {2, 3, 2})),
                        torch::upsample_nearest3d(x[0], std::vector<int64_t>{8, 6, 4})};
       },
       {numbers({3, 2, 4, 6, 4})}},
      of_image("batch_norm",
               [m = numbers({4}), v = numbers({4}).abs() + 0.5, w = numbers({4}),
                b = numbers({4})](const Tensor& x) {
                 return torch::batch_norm(x, w, b, m, v, false, 0.1, 1e-3, true) +
                        torch::batch_norm(x, {}, {}, m, v, false, 0.1, 1e-5, true);
               }),
      of_image("other_norms",
               [w = numbers({4}), b = numbers({4}), l = numbers({12})](const Tensor& x) {
                 return torch::group_norm(x, 2, w, b) + torch::layer_norm(x, {12}, l) +
                        torch::layer_norm(x, {8, 12});
               }),
      of_image("attention",
               [mask = torch::rand({8, 8}) > 0.3, added = numbers({8, 8})](const Tensor& x) {
                 return torch::scaled_dot_product_attention(x, x * 2, x, {}, 0, true) +
                        torch::scaled_dot_product_attention(x, x, x - 1, mask, 0, false, 0.3) +
                        torch::scaled_dot_product_attention(x, x, x, added, 0, false);
               }),
  };
}

/// Traces each for two and three examples, and asks onnxruntime for other numbers of them.
void expect_agreement(const std::vector<Case>& cases) {
  if (!test::why_no_onnxruntime().empty()) GTEST_SKIP() << test::why_no_onnxruntime();
  const test::TempFolder folder;
  const torch::NoGradGuard no_grad;
  for (const Case& each : cases) {
    try {
      const std::string stem = join_path(folder.path(), each.name);
      export_onnx(trace_inference(each.function, each.inputs,
                                  {.name = each.name, .any_batch = each.any_batch}),
                  stem + ".onnx");
      for (const int64_t batch : {3, 1, 5}) {
        Tensors inputs;
        for (const Tensor& input : each.inputs) {
          inputs.push_back(torch::cat({input, input.flip(0)}).narrow(0, 0, batch).contiguous());
        }
        const std::string named = batch == 3 ? stem : str_cat(stem, "_", batch);
        if (batch != 3) std::filesystem::copy_file(stem + ".onnx", named + ".onnx");
        test::write_onnx_case(named, inputs, each.function(inputs));
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << each.name << ": " << error.what();
    }
  }
  test::expect_onnxruntime_agrees(folder.path(), "1e-5");
}

TEST(OnnxRulesTest, ElementwiseAsInOnnxruntime) {
  torch::manual_seed(1);
  expect_agreement(elementwise_cases());
}
TEST(OnnxRulesTest, ShapesAsInOnnxruntime) {
  torch::manual_seed(2);
  expect_agreement(shape_cases());
}
TEST(OnnxRulesTest, ReductionsAsInOnnxruntime) {
  torch::manual_seed(3);
  expect_agreement(reduction_cases());
}
TEST(OnnxRulesTest, LayersAsInOnnxruntime) {
  torch::manual_seed(4);
  expect_agreement(layer_cases());
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("lstm", lstm);
    register_module("dense", dense);
    register_module("dropout", dropout);
  }
  Tensor forward(const Tensor& x) { return dense(dropout(std::get<0>(lstm(x)).select(1, -1))); }
  torch::nn::LSTM lstm{
      torch::nn::LSTMOptions(6, 5).batch_first(true).num_layers(2).bidirectional(true)};
  torch::nn::Linear dense{10, 3};
  torch::nn::Dropout dropout{0.5};
};

TEST(OnnxExportTest, ModulesAreEvaluatedAndStayInTraining) {
  if (!test::why_no_onnxruntime().empty()) GTEST_SKIP() << test::why_no_onnxruntime();
  const test::TempFolder folder;
  torch::manual_seed(5);
  NetImpl net;
  const std::string stem = join_path(folder.path(), "net");
  export_onnx(trace_inference(net, numbers({2, 4, 6}), {.any_batch = true}), stem + ".onnx");
  EXPECT_TRUE(net.is_training());
  net.eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = numbers({3, 4, 6});
  test::write_onnx_case(stem, {x}, {net.forward(x)});
  test::expect_onnxruntime_agrees(folder.path(), "1e-5");
}

TEST(OnnxExportTest, MessagesAreTheContracts) {
  test::ProtoContract contract("onnx/onnx.proto");
  contract.expect_message<onnx::ModelMessage>("ModelProto");
  contract.expect_enum("AttributeType", "src/graph/onnx/onnx_proto.h");
  contract.expect_nothing_else();
}

onnx::ModelMessage read_model(const std::string& path) {
  static constexpr strata::detail::WireText kText{.call = "[test]", .expected = "an ONNX model"};
  const std::string bytes = read_file(path);
  strata::detail::WireReader reader(bytes, bytes, kText);
  onnx::ModelMessage model;
  read_message(model, reader);
  return model;
}

TEST(OnnxExportTest, NamesInputsWeightsAndTheBatch) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "model.onnx");
  const Tensor weight = numbers({6, 2});
  export_onnx(
      trace_inference([&](const Tensors& x) { return Tensors{x[0].mm(weight)}; }, {numbers({3, 6})},
                      {.name = "small", .any_batch = true}),
      path,
      {.input_names = {"pixels"}, .output_names = {"scores"}, .weight_names = {{"w", weight}}});
  const onnx::ModelMessage model = read_model(path);
  EXPECT_EQ(model.operator_sets.at(0).version, kOnnxOpset);
  const onnx::GraphMessage& graph = model.graph.value();
  EXPECT_EQ(graph.name, "small");
  EXPECT_EQ(graph.inputs.at(0).name, "pixels");
  EXPECT_EQ(graph.inputs[0].type.tensor.shape.dims.at(0).parameter, "batch");
  EXPECT_EQ(graph.inputs[0].type.tensor.shape.dims.at(1).value, 6);
  EXPECT_EQ(graph.outputs.at(0).name, "scores");
  ASSERT_EQ(graph.initializers.size(), 1U);
  EXPECT_EQ(graph.initializers[0].name, "w");
  EXPECT_EQ(graph.initializers[0].raw_data,
            std::string(static_cast<const char*>(weight.data_ptr()), weight.nbytes()));
}

TEST(OnnxExportTest, ComputesWhatDependsOnWeightsAlone) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "model.onnx");
  const Tensor weight = numbers({2, 6});
  export_onnx(trace_inference(
                  [&](const Tensors& x) { return Tensors{x[0].mm((weight * 2).t().contiguous())}; },
                  {numbers({3, 6})}),
              path);
  const onnx::GraphMessage graph = read_model(path).graph.value();
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].op_type, "MatMul");
  EXPECT_EQ(graph.nodes[1].op_type, "Identity");
  EXPECT_EQ(graph.inputs[0].type.tensor.shape.dims.at(0).value, 3);
}

void expect_refused(ErrorCode code, const std::string& part, const InferenceFunction& function,
                    const Tensors& inputs, bool any_batch = false) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "model.onnx");
  expect_error_containing(
      [&] { export_onnx(trace_inference(function, inputs, {.any_batch = any_batch}), path); }, code,
      part);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OnnxExportTest, RefusesWhatOnnxDoesNotHave) {
  const Tensors x = {numbers({3, 4})};
  expect_refused(
      ErrorCode::kUnimplemented, "(aten::lgamma, Float [3, 4]; ",
      [](const Tensors& x) { return Tensors{x[0].lgamma()}; }, x);
  const Tensor count = torch::zeros({2});
  expect_refused(
      ErrorCode::kUnimplemented, "it writes a variable, of Float [2]",
      [&](const Tensors& x) {
        count.add_(1);
        return Tensors{x[0].sum() + count};
      },
      x);
  expect_refused(
      ErrorCode::kUnimplemented, "aten::rand",
      [](const Tensors& x) { return Tensors{x[0] + torch::rand({4})}; }, x);
  expect_refused(
      ErrorCode::kUnimplemented, "a divisor of its own",
      [](const Tensors& x) {
        return Tensors{torch::avg_pool2d(x[0].unsqueeze(0), 2, 1, 0, false, true, 3)};
      },
      x);
  expect_refused(
      ErrorCode::kUnimplemented, "expected float, double",
      [](const Tensors& x) { return Tensors{x[0].to(torch::kComplexFloat)}; }, x);
  const Tensor large = torch::empty({int64_t{1} << 31}, torch::kByte);  // never written
  expect_refused(
      ErrorCode::kUnimplemented, "expected less than 2 GiB",
      [&](const Tensors& x) { return Tensors{x[0].sum() + large}; }, x);
}

TEST(InferenceTest, RefusesWhatIsAnotherGraphForAnotherBatch) {
  expect_refused(
      ErrorCode::kFailedPrecondition, "for another number of examples it has other operators",
      [](const Tensors& x) {
        Tensor sum = x[0][0];
        for (int64_t i = 1; i < x[0].size(0); ++i) sum = sum + x[0][i];
        return Tensors{sum};
      },
      {numbers({3, 4})}, /*any_batch=*/true);
  expect_refused(
      ErrorCode::kFailedPrecondition, "is another number",
      [](const Tensors& x) { return Tensors{x[0] * (1.0 / static_cast<double>(x[0].size(0)))}; },
      {numbers({3, 4})}, /*any_batch=*/true);
  expect_refused(
      ErrorCode::kInvalidArgument, "the same number of examples",
      [](const Tensors& x) { return x; }, {numbers({3, 4}), numbers({2, 4})},
      /*any_batch=*/true);
  expect_refused(ErrorCode::kFailedPrecondition, "asks for the elements",
                 [](const Tensors& x) { return Tensors{x[0] * x[0].sum().item<double>()}; },
                 {numbers({3, 4})});
}

}  // namespace
}  // namespace strata::graph
