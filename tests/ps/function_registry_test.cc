#include "strata/ps/function_registry.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/replicas.h"

namespace strata::ps {
namespace {

struct Registered {
  int64_t value = 0;
};

CallContext context_with(detail::Resources resources = {}) {
  return {{"worker", 1}, 3, {}, std::move(resources)};
}

Value call(const FunctionRegistry& registry, const std::string& name,
           const std::vector<Value>& values, const CallContext& context = context_with()) {
  return registry.find(name).entry.call(context, values);
}

double free_function(double a, int64_t b) { return a + static_cast<double>(b); }

TEST(FunctionRegistryTest, ParametersAndResultsAreConverted) {
  FunctionRegistry registry;
  registry.add("free", &free_function);
  registry.add("sum", [](const at::Tensor& tensor) { return tensor.sum(); });
  registry.add("all", [](bool yes, std::string text, const std::vector<at::Tensor>& tensors,
                         std::vector<int64_t> numbers, int32_t narrow, float single) {
    return std::tuple(yes, text, tensors.size(), numbers.back(), narrow, single);
  });
  registry.add("nothing", [] {});
  registry.add("any", [](const Value& value) { return value; });
  registry.add("where", [](const CallContext& context, const std::string& text) {
    return str_cat(text, context.worker().to_string(), "/", context.num_workers());
  });
  EXPECT_EQ(call(registry, "free", {1.5, 2}).as_double(), 3.5);
  EXPECT_EQ(call(registry, "free", {1, 2}).as_double(), 3.0);  // an int64 is a float64
  EXPECT_EQ(call(registry, "sum", {at::ones({4})}).tensor().item<float>(), 4.0F);
  const Value all = call(
      registry, "all",
      {true, "text", std::vector<at::Tensor>{at::ones({1})}, std::vector<int64_t>{4, 5}, -7, 0.5});
  ASSERT_EQ(all.list().size(), 6U);
  EXPECT_TRUE(all.list()[0].as_bool());
  EXPECT_EQ(all.list()[1].text(), "text");
  EXPECT_EQ(all.list()[2].as_int(), 1);
  EXPECT_EQ(all.list()[3].as_int(), 5);
  EXPECT_EQ(all.list()[4].as_int(), -7);
  EXPECT_EQ(all.list()[5].as_double(), 0.5);
  EXPECT_EQ(call(registry, "nothing", {}).kind(), Value::Kind::kNothing);
  EXPECT_EQ(call(registry, "any", {"x"}).text(), "x");
  EXPECT_EQ(call(registry, "where", {"at "}).text(), "at /job:worker/task:1/3");
}

TEST(FunctionRegistryTest, FunctionsKeepTheirState) {
  FunctionRegistry registry;
  registry.add("count", [count = 0]() mutable { return ++count; });
  const FunctionRegistry copy = registry;
  EXPECT_EQ(call(registry, "count", {}).as_int(), 1);
  EXPECT_EQ(call(copy, "count", {}).as_int(), 2);
}

TEST(FunctionRegistryTest, ResourcesAreHandedOverByReference) {
  FunctionRegistry registry;
  registry.add_resource("counter", [](int64_t start) { return Registered{start}; });
  registry.add_resource("shared", [] { return std::make_shared<Registered>(); });
  registry.add_resource("unique", [] { return std::make_unique<Registered>(); });
  registry.add("up", [](Registered& counter, int64_t by) { return counter.value += by; });
  registry.add("keep", [](std::shared_ptr<Registered> counter) { return counter->value; });
  registry.add("plain", [](int64_t number) { return number; });
  const auto& factory = registry.find("counter").entry;
  auto resource = std::make_shared<detail::Resource>();
  resource->name = "counter";
  resource->object = factory.make(context_with(), {10});
  resource->type = factory.object;
  auto value = std::make_shared<detail::Resource>();
  value->name = "rank";
  value->value = 3;
  auto broken = std::make_shared<detail::Resource>();
  broken->name = "broken";
  broken->status = Status(ErrorCode::kNotFound, "no file");
  const CallContext context = context_with({{1, resource}, {2, value}, {3, broken}});
  EXPECT_EQ(call(registry, "up", {ResourceId{1}, 5}, context).as_int(), 15);
  EXPECT_EQ(call(registry, "keep", {ResourceId{1}}, context).as_int(), 15);
  EXPECT_EQ(call(registry, "plain", {ResourceId{2}}, context).as_int(), 3);
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"argument 0", "the per-worker value \"counter\"", "Registered", "expected int64"},
             [&] { call(registry, "plain", {ResourceId{1}}, context); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"\"rank\", which is int64", "expected resource<"},
                     [&] { call(registry, "keep", {ResourceId{2}}, context); }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"per-worker value \"broken\": no file"},
                     [&] { call(registry, "keep", {ResourceId{3}}, context); }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"per-worker value 4 is not on this worker"},
                     [&] { call(registry, "keep", {ResourceId{4}}, context); }));
}

TEST(FunctionRegistryTest, WrongArgumentsAreNamed) {
  FunctionRegistry registry;
  registry.add("narrow", [](int8_t number) { return number; });
  registry.add("tensors", [](std::vector<at::Tensor> tensors) { return tensors; });
  registry.add("truth", [](bool truth) { return truth; });
  expect_error([&] { call(registry, "narrow", {300}); },
               "argument 0: got 300; expected an integer of 8 bits");
  expect_error([&] { call(registry, "narrow", {1.0}); }, "argument 0: got float64; expected int64");
  expect_error(
      [&] {
        call(registry, "tensors", {Value(Value::List{1, 2})});
      },
      "argument 0: got int64; expected Tensor");
  expect_error([&] { call(registry, "truth", {1}); }, "argument 0: got int64; expected bool");
}

TEST(FunctionRegistryTest, NamesAreChecked) {
  FunctionRegistry registry;
  registry.add("step", [] {});
  EXPECT_TRUE(throws(ErrorCode::kAlreadyExists, {"got \"step\" twice"},
                     [&] { registry.add("step", [] {}); }));
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument, {"got the name \"\""}, [&] { registry.add("", [] {}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"without control characters"},
                     [&] { registry.add("a\nb", [] {}); }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"got the function \"stop\"", "registered: step"},
                     [&] { (void)registry.find("stop"); }));
}

TEST(FunctionRegistryTest, TheFingerprintIsOfNamesAndSignatures) {
  const auto make = [](auto... add) {
    FunctionRegistry registry;
    (add(registry), ...);
    return registry;
  };
  const auto f = [](FunctionRegistry& r) { r.add("f", [](int64_t) { return 1.0; }); };
  const auto g = [](FunctionRegistry& r) { r.add("g", [](const at::Tensor& x) { return x; }); };
  const auto other_f = [](FunctionRegistry& r) { r.add("f", [](double) { return 1.0; }); };
  const FunctionRegistry both = make(f, g);
  EXPECT_EQ(both.fingerprint(), make(g, f).fingerprint());
  EXPECT_NE(both.fingerprint(), make(f).fingerprint());
  EXPECT_NE(both.fingerprint(), make(other_f, g).fingerprint());
  EXPECT_EQ(both.signatures(),
            (std::vector<std::string>{"f(int64) -> float64", "g(Tensor) -> Tensor"}));
  EXPECT_EQ(registry_difference(both.signatures(), make(other_f, g).signatures()),
            "only here: f(int64) -> float64; only there: f(float64) -> float64");
  EXPECT_EQ(registry_difference(make(f).signatures(), both.signatures()),
            "only here: nothing; only there: g(Tensor) -> Tensor");
}

}  // namespace
}  // namespace strata::ps
