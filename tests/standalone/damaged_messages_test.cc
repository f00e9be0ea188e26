// Steps and messages from anywhere: they end in errors, or in steps that stay within their tensors and the
// memory that they were allowed.
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/thread.h"
#include "graph/host_call.h"
#include "graph/remote/step_check.h"
#include "graph/remote/step_run.h"
#include "graph/tracer.h"
#include "kernels/attention.h"
#include "kernels/masked_recurrent.h"
#include "kernels/recurrent.h"
#include "strata/core/file_system.h"
#include "strategies/standalone/messages.h"
#include "strategies/standalone/server.h"
#include "strategies/standalone/server_dataset_json.h"
#include "support/damaged.h"
#include "support/expect_error.h"
#include "support/proto_contract.h"
#include "support/soak_setting.h"
#include "support/temp_folder.h"
#include "wire/tcp/socket_transport.h"

namespace strata {
namespace {

using graph::remote::HostWork;
using graph::remote::RemoteStep;
using graph::remote::StepRun;
using graph::remote::StepWorld;
using graph::remote::Work;
using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kMemory = uint64_t{64} << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSanitizerKilobytes = 256 << 10;  // of freed memory, which it keeps
#else
constexpr uint64_t kSanitizerKilobytes = 0;
#endif

enum class Program { kImages, kSequences };

/// A training step with many kinds of operators, and the tensors that it captures.
class RecordedStep {
 public:
  explicit RecordedStep(Program program = Program::kImages) {
    torch::manual_seed(1);
    if (program == Program::kImages) {
      step_ = [this](const Tensors& x) { return train(x[0], x[1], x[2]); };
      inputs_ = {torch::randn({4, 1, 8, 8}), torch::randint(0, 20, {4, 3}),
                 torch::randint(0, 5, {4})};
    } else {
      step_ = [this](const Tensors& x) { return train_sequences(x[0], x[1]); };
      inputs_ = {torch::randn({4, 6, 8}), torch::rand({6, 4}) < 0.7};
    }
    graph::Layouts layouts;
    const graph::Trace trace = graph::Tracer::trace("step", inputs_, step_, layouts);
    std::map<const void*, int64_t> known;
    bytes_ = graph::remote::encode_step(
        trace,
        [&](const graph::Value& value) {
          const auto [found, is_new] = known.emplace(value.tensor.storage().unsafeGetStorageImpl(),
                                                     static_cast<int64_t>(states_.size()));
          if (is_new) {
            const auto elements =
                static_cast<int64_t>(value.tensor.storage().nbytes() / value.tensor.element_size());
            states_.push_back(value.tensor.detach().as_strided({elements}, {1}, 0).clone());
            world_.states.push_back({value.dtype, elements});
          }
          return graph::remote::StatePlace{found->second, value.tensor.storage_offset()};
        },
        [](const graph::Node&) { return 0; });
    world_.updates = {{{at::kFloat, {5, 16}}}};
    world_.replicas = 2;
    world_.memory = kMemory;
    world_.parts = 100'000;
  }

  const std::string& bytes() const { return bytes_; }
  const StepWorld& world() const { return world_; }

  /// By the program.
  Tensors here() { return step_(inputs_); }

  /// As a server does. @return the outputs.
  Tensors there(const RemoteStep& checked) const {
    Tensors inputs;
    for (const graph::ValueId id : checked.graph.inputs) {
      if (id == graph::kNoValue) {
        inputs.emplace_back();
        continue;
      }
      const graph::Value& value = checked.graph.values[static_cast<size_t>(id)];
      const at::Tensor made =
          torch::empty_strided(value.sizes, value.strides, at::dtype(value.dtype));
      const size_t place = inputs.size();
      const bool same = place < inputs_.size() && inputs_[place].sizes() == made.sizes();
      inputs.push_back(same ? made.copy_(inputs_[place]) : made.fill_(1));
    }
    Tensors states;
    for (const at::Tensor& each : states_) states.push_back(each.clone());
    StepRun run(std::make_shared<const RemoteStep>(checked));
    return run.run(
        states, inputs,
        [](const HostWork& work, const Tensors& tensors) -> Tensors {
          if (work.work == Work::kUpdate) return {};
          if (work.work == Work::kMaskedSteps || work.work == Work::kMaskedStepsBackward) {
            return run_masked(work, tensors);
          }
          if (work.work != Work::kAllReduce && work.work != Work::kAllGather) {
            throw Error(ErrorCode::kUnimplemented, "[test] other work");
          }
          if (work.work == Work::kAllReduce) {
            const bool real = tensors[0].is_floating_point() || work.numbers[0] != 1;
            return {(real ? tensors[0] : tensors[0].to(at::kDouble)).contiguous().clone()};
          }
          const auto axis = static_cast<int64_t>(work.numbers[0]);
          return {torch::cat({tensors[0], tensors[0]}, axis)};
        },
        [] {});
  }

 private:
  Tensors train(const at::Tensor& x, const at::Tensor& words, const at::Tensor& labels) {
    at::Tensor y = norm_(conv_(x)).relu();
    y = torch::max_pool2d(y, 2).flatten(1);
    y = torch::cat({y, embedding_(words).mean(1)}, 1);
    y = torch::gelu(layer_norm_(dense_(y)));
    const at::Tensor loss =
        torch::nll_loss(torch::log_softmax(head_(torch::dropout(y, 0.1, true)), 1), labels);
    std::vector<at::Tensor> parameters;
    for (const auto& module :
         std::initializer_list<torch::nn::Module*>{conv_.get(), norm_.get(), embedding_.get(),
                                                   dense_.get(), layer_norm_.get(), head_.get()}) {
      for (const at::Tensor& each : module->parameters()) parameters.push_back(each);
    }
    descend(loss, parameters);
    return {loss.detach(), y.detach()};
  }

  static void descend(const at::Tensor& loss, const Tensors& parameters) {
    const auto gradients = torch::autograd::grad({loss}, parameters);
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i)
      at::Tensor(parameters[i]).sub_(gradients[i], 0.1);
  }

  static Tensors run_masked(const HostWork& work, const Tensors& tensors) {
    const kernels::MaskedLayer layer = *kernels::MaskedLayer::of_numbers(work.numbers);
    return work.work == Work::kMaskedStepsBackward
               ? kernels::masked_backward(layer, tensors)
               : kernels::MaskedLayerRun(layer).forward(tensors);
  }

  /// Layers with operators and nodes of ours, where these apply, and others of libtorch's with a rule.
  Tensors train_sequences(const at::Tensor& x, const at::Tensor& shown) {
    const at::Tensor rows = x.transpose(0, 1).reshape({24, 8});
    const auto lstm = kernels::lstm(rows, state_, state_, kernel_, recurrent_, bias_,
                                    {.rows = {}, .sizes = {4, 4, 4, 4, 4, 4}});
    at::Tensor y = (lstm ? lstm->y : torch::mm(rows, kernel_.slice(1, 0, 8))).view({6, 4, 8});
    const at::Tensor heads = y.permute({1, 0, 2}).reshape({4, 6, 2, 4}).transpose(1, 2);
    const auto seen = kernels::attention(heads, heads, heads, {.causal = true}, 0.5,
                                         kernels::UnseeingQueries::kZero);
    y = (seen ? *seen : heads).transpose(1, 2).reshape({4, 6, 8});
    y = torch::group_norm(y.transpose(1, 2), 2, scale_, scale_).unsqueeze(1);
    y = torch::adaptive_avg_pool2d(torch::upsample_bilinear2d(y, {9, 7}, false), {4, 3});
    y = torch::where(y > 0, y, y.abs() * 0.1);
    const at::Tensor masked = graph::call_host("strata::masked_steps",
                                               {rows.detach(),
                                                shown,
                                                {},
                                                state_,
                                                kernel_.slice(1, 0, 24).detach(),
                                                recurrent_.slice(1, 0, 24).detach(),
                                                {},
                                                {}},
                                               {{{4, 8}, at::kFloat}, {{4, 8}, at::kFloat}},
                                               [](const Tensors& tensors) {
                                                 return Tensors{tensors[3], tensors[3]};
                                               },
                                               {1, 0, 0, 0, 0, 0, 0, 0, 0})[0];
    const at::Tensor loss = torch::mse_loss(y.flatten(1).slice(1, 0, 8), masked);
    descend(loss, {kernel_, recurrent_, bias_, scale_});
    return {loss.detach(), y.detach()};
  }

  torch::nn::Conv2d conv_{torch::nn::Conv2dOptions(1, 4, 3).padding(1)};
  torch::nn::BatchNorm2d norm_{4};
  torch::nn::Embedding embedding_{20, 8};
  torch::nn::Linear dense_{72, 16};
  torch::nn::LayerNorm layer_norm_{torch::nn::LayerNormOptions({16})};
  torch::nn::Linear head_{16, 5};
  const at::Tensor state_ = torch::zeros({4, 8});
  const at::Tensor kernel_ = torch::randn({8, 32}).requires_grad_();
  const at::Tensor recurrent_ = torch::randn({8, 32}).requires_grad_();
  const at::Tensor bias_ = torch::randn({32}).requires_grad_();
  const at::Tensor scale_ = torch::ones({8}).requires_grad_();
  std::function<Tensors(const Tensors&)> step_;
  Tensors inputs_;
  std::string bytes_;
  Tensors states_;
  StepWorld world_;
};

std::string damaged(const std::string& bytes, std::mt19937& random) {
  return test::damaged(bytes, random, [&](std::string& damaged) {
    // A small number more or less: a size, a value, a kind.
    char& byte = damaged[random() % damaged.size()];
    byte = static_cast<char>(byte + (random() % 2 == 0 ? 1 : -1));
  });
}

uint64_t peak_kilobytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

class DamagedStepsTest : public ::testing::TestWithParam<Program> {};

TEST_P(DamagedStepsTest, AWholeOneRuns) {
  RecordedStep recorded(GetParam());
  RemoteStep step = graph::remote::decode_step(recorded.bytes());
  graph::remote::check_step(step, recorded.world());
  EXPECT_GT(step.bytes, 0);
  const Tensors there = recorded.there(step);
  ASSERT_EQ(there.size(), 2);
  torch::manual_seed(1);
  EXPECT_TRUE(std::isfinite(there[0].item<float>()));
}

TEST_P(DamagedStepsTest, EndInErrorsOrWithinBounds) {
  RecordedStep recorded(GetParam());
  {
    RemoteStep step = graph::remote::decode_step(recorded.bytes());
    graph::remote::check_step(step, recorded.world());
    recorded.there(step);
  }
  const uint64_t before = peak_kilobytes();
  std::mt19937 random(static_cast<unsigned>(test::soak_setting("STRATA_FUZZ_SEED", 1)));
  const auto mutations = static_cast<int>(test::soak_setting("STRATA_FUZZ_STEPS", 1000));
  int refused = 0, ran = 0;
  std::map<ErrorCode, int> codes;
  for (int i = 0; i < mutations; ++i) {
    try {
      RemoteStep step = graph::remote::decode_step(damaged(recorded.bytes(), random));
      graph::remote::check_step(step, recorded.world());
      recorded.there(step);
      ++ran;
    } catch (const Error& error) {
      ++refused;
      ++codes[error.code()];
      EXPECT_TRUE(error.code() == ErrorCode::kDataLoss ||
                  error.code() == ErrorCode::kInvalidArgument ||
                  error.code() == ErrorCode::kUnimplemented ||
                  error.code() == ErrorCode::kFailedPrecondition ||
                  error.code() == ErrorCode::kResourceExhausted)
          << i << ": " << error.what();
    }  // any other exception fails the test
  }
  EXPECT_GT(refused, mutations / 4);
  EXPECT_GT(ran, 0);
  // What is allowed, once for the step and once for its tensors and the allocator.
  EXPECT_LT(peak_kilobytes() - before, 3 * kMemory / 1024 + kSanitizerKilobytes);
}

INSTANTIATE_TEST_SUITE_P(Programs, DamagedStepsTest,
                         ::testing::Values(Program::kImages, Program::kSequences),
                         [](const auto& info) {
                           return info.param == Program::kImages ? "Images" : "Sequences";
                         });

/// What a rule is for: elements that an operator trusts.
TEST(TrustedElementsTest, ComeFromTheirOperator) {
  const auto refused = [](const Tensors& inputs, const graph::Tracer::Step& function,
                          const std::string& why) {
    graph::Layouts layouts;
    const graph::Trace trace = graph::Tracer::trace("step", inputs, function, layouts);
    RemoteStep step = graph::remote::decode_step(graph::remote::encode_step(
        trace,
        [](const graph::Value&) {
          return graph::remote::StatePlace{0, 0};
        },
        [](const graph::Node&) { return 0; }));
    const StepWorld world{.memory = kMemory, .parts = 1000};
    expect_error_containing([&] { graph::remote::check_step(step, world); },
                            ErrorCode::kInvalidArgument, why);
  };
  const at::Tensor positions = torch::zeros({1, 1, 2, 2}, at::kLong);
  refused(
      {torch::ones({1, 1, 2, 2}), torch::ones({1, 1, 4, 4}), positions},
      [](const Tensors& x) {
        return Tensors{torch::max_pool2d_with_indices_backward(x[0], x[1], {2, 2}, {2, 2}, {0, 0},
                                                               {1, 1}, false, x[2])};
      },
      "no max_pool2d_with_indices before it");
  refused(
      {torch::ones({3, 4}), torch::zeros({3}, at::kLong)},
      [](const Tensors& x) {
        return Tensors{torch::embedding_dense_backward(x[0], x[1], 10, -1, false)};
      },
      "no embedding before it");
  refused(
      {torch::ones({1, 4, 2, 2}), torch::ones({3}), torch::ones({4})},
      [](const Tensors& x) {
        return Tensors{
            std::get<0>(torch::native_batch_norm(x[0], {}, {}, x[1], x[2], false, 0.1, 1e-5))};
      },
      "not one number a channel");
}

/// libtorch 2.15 ends the process for a memory format that there is not.
TEST(CallTypesTest, EnumeratorsAreLookedAt) {
  graph::Layouts layouts;
  const graph::Trace trace = graph::Tracer::trace(
      "step", {torch::ones({2})}, [](const Tensors& x) { return Tensors{torch::ones_like(x[0])}; },
      layouts);
  for (const char* argument : {"dtype", "layout", "memory_format"}) {
    RemoteStep step = graph::remote::decode_step(graph::remote::encode_step(
        trace,
        [](const graph::Value&) {
          return graph::remote::StatePlace{0, 0};
        },
        [](const graph::Node&) { return 0; }));
    const std::vector<std::string> names = {"self",   "dtype",      "layout",
                                            "device", "pin_memory", "memory_format"};
    const auto place = std::ranges::find(names, argument) - names.begin();
    ASSERT_EQ(step.graph.nodes[0].arguments.size(), names.size());
    step.graph.nodes[0].arguments[static_cast<size_t>(place)].number = int64_t{100};
    expect_error_containing(
        [&] { graph::remote::check_step(step, {.memory = kMemory, .parts = 100}); },
        ErrorCode::kInvalidArgument, str_cat("`", argument, "` of another type"));
  }
}

TEST(StandaloneMessagesTest, AreWhatTheContractSays) {
  test::ProtoContract step("strata/step_graph.proto");
  step.expect_message<graph::remote::StepGraph>("StepGraph");
  test::ProtoContract messages("strata/standalone.proto");
  messages.expect_enum("RequestKind", "src/strategies/standalone/messages.h");
  messages.expect_enum("Consistency", "include/strata/ps/table.h");
  messages.expect_enum("PushPrecision", "include/strata/ps/table.h");
  messages.expect_message<standalone::Request>("Request");
  messages.expect_message<standalone::Reply>("Reply");
  messages.expect_nothing_else();
}

/// A client that sends what it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& address)
      : transport_(wire::make_socket_transport()),
        connection_(transport_->connect(wire::Address::parse(address),
                                        {.job = std::string(standalone::kJob),
                                         .task = "/job:client/task:0",
                                         .purpose = std::string(standalone::kPurpose)},
                                        soon())) {}

  void send(const std::string& bytes) {
    connection_->send_message(standalone::kControlChannel, bytes);
  }
  standalone::Reply receive() {
    return standalone::decode_reply(
        connection_->receive_message(standalone::kControlChannel, soon()));
  }
  standalone::Reply ask(const standalone::Request& request) {
    send(standalone::encode(request));
    return receive();
  }
  standalone::Reply open() {
    return ask({.kind = standalone::RequestKind::kOpen,
                .protocol = standalone::kProtocol,
                .seed = 1,
                .devices = {"cpu:0"},
                .servers = 1});
  }

 private:
  static wire::Deadline soon() { return wire::Deadline::after(std::chrono::seconds(30)); }

  std::unique_ptr<wire::Transport> transport_;
  std::shared_ptr<wire::Connection> connection_;
};

/// Invalid joins are refused with an error; they end the session at once.
TEST(StandaloneMessagesTest, AJoinOfParameterServersIsChecked) {
  standalone::StandaloneServer server({.memory = kMemory});
  const Thread serving("server", [&](const std::stop_token& stop) { server.serve(stop); });
  const standalone::ParametersSpec good{.addresses = {"127.0.0.1:1"}, .workers = 1};
  std::vector<standalone::ParametersSpec> bad(7, good);
  bad[0].addresses.clear();
  bad[1].workers = 0;
  bad[2].workers = int64_t{1} << 40;
  bad[3].staleness = -1;
  bad[4].backup_workers = 1;
  bad[5].consistency = static_cast<ps::Consistency>(3);
  bad[6].precision = static_cast<ps::PushPrecision>(-1);
  for (const bool holds : {false, true}) {
    for (size_t i = 0; i < bad.size(); ++i) {
      RawClient client(server.address());
      const standalone::Reply opened = client.ask({.kind = standalone::RequestKind::kOpen,
                                                   .protocol = standalone::kProtocol,
                                                   .devices = {"cpu:0"},
                                                   .servers = 1,
                                                   .holds_parameters = holds});
      ASSERT_EQ(opened.code, 0) << opened.message;
      const standalone::Reply reply = client.ask({.kind = standalone::RequestKind::kJoin,
                                                  .session = str_cat("join ", holds, i),
                                                  .parameters = bad[i]});
      EXPECT_EQ(static_cast<ErrorCode>(reply.code), ErrorCode::kInvalidArgument) << i;
      EXPECT_NE(reply.message.find("ParameterServerStrategyOptions"), std::string::npos)
          << reply.message;
    }
  }
  RawClient client(server.address());
  ASSERT_EQ(client
                .ask({.kind = standalone::RequestKind::kOpen,
                      .protocol = standalone::kProtocol,
                      .servers = 1,
                      .holds_parameters = true})
                .code,
            0);
  const standalone::Reply none =
      client.ask({.kind = standalone::RequestKind::kJoin, .session = "no workers"});
  EXPECT_EQ(static_cast<ErrorCode>(none.code), ErrorCode::kInvalidArgument) << none.message;
}

/// A parameter server of a session takes no steps.
TEST(StandaloneMessagesTest, AParameterServerOnlyCloses) {
  standalone::StandaloneServer server({.memory = kMemory});
  const Thread serving("server", [&](const std::stop_token& stop) { server.serve(stop); });
  RawClient client(server.address());
  const standalone::Reply opened = client.ask({.kind = standalone::RequestKind::kOpen,
                                               .protocol = standalone::kProtocol,
                                               .servers = 1,
                                               .holds_parameters = true});
  ASSERT_EQ(opened.code, 0) << opened.message;
  const standalone::ParametersSpec parameters{.addresses = {str_cat("127.0.0.1:", opened.port)},
                                              .workers = 1};
  const standalone::Reply joined = client.ask(
      {.kind = standalone::RequestKind::kJoin, .session = "x", .parameters = parameters});
  ASSERT_EQ(joined.code, 0) << joined.message;
  const standalone::Reply reply = client.ask({.kind = standalone::RequestKind::kRun, .run = 1});
  EXPECT_EQ(static_cast<ErrorCode>(reply.code), ErrorCode::kFailedPrecondition) << reply.message;
}

TEST(StandaloneMessagesTest, DamagedOnesHarmNoOtherClient) {
  const test::TempFolder folder;
  std::ofstream(join_path(folder.path(), "table.csv")) << "1,2,0\n3,4,1\n";
  standalone::StandaloneServer server({.data = folder.path(),
                                       .memory = kMemory,
                                       .sessions = 1024,
                                       .keep = std::chrono::milliseconds(20)});
  const Thread serving("server", [&](const std::stop_token& stop) { server.serve(stop); });
  RawClient honest(server.address());
  ASSERT_EQ(honest.open().code, 0);
  ASSERT_EQ(honest.ask({.kind = standalone::RequestKind::kJoin, .session = "x"}).code, 0);

  RecordedStep recorded;
  standalone::Request add{.kind = standalone::RequestKind::kAdd, .graphs = {recorded.bytes()}};
  for (const StepWorld::Held& held : recorded.world().states) {
    add.states.push_back({.name = "tensor",
                          .dtype = static_cast<uint64_t>(held.dtype),
                          .sizes = {held.elements},
                          .strides = {1}});
  }
  const std::string requests[] = {
      standalone::encode(add),
      standalone::encode(standalone::Request{
          .kind = standalone::RequestKind::kRun, .step = 0, .run = 1, .rates = {0.1}}),
      standalone::encode(standalone::Request{
          .kind = standalone::RequestKind::kFetch, .tensors = {0, 1}, .slots = {0}}),
      standalone::encode(standalone::Request{
          .kind = standalone::RequestKind::kPush, .tensors = {0}, .slots = {0}}),
      standalone::encode(standalone::Request{.kind = standalone::RequestKind::kDescribe,
                                             .dataset = standalone::to_json({.format = "csv",
                                                                             .files = {"table.csv"},
                                                                             .batch_size = 1,
                                                                             .header = false,
                                                                             .classes = {"0", "1"}})
                                                            .dump()}),
      standalone::encode(standalone::Request{
          .kind = standalone::RequestKind::kRun,
          .step = 0,
          .run = 1,
          .rates = {0.1},
          .sources = {{.input = 0, .dataset = 0, .batch = 1, .field = 0, .row = 0}}}),
  };
  std::mt19937 random(static_cast<unsigned>(test::soak_setting("STRATA_FUZZ_SEED", 1)));
  const auto mutations = static_cast<int>(test::soak_setting("STRATA_FUZZ_STEPS", 1000)) / 10;
  for (int i = 0; i < mutations; ++i) {
    try {
      RawClient client(server.address());
      const standalone::Reply opened = client.open();
      if (opened.code != 0) {  // sessions of clients before are kept for a while
        EXPECT_EQ(static_cast<ErrorCode>(opened.code), ErrorCode::kResourceExhausted)
            << opened.message;
        continue;
      }
      client.ask({.kind = standalone::RequestKind::kJoin, .session = "y"});
      // Undamaged ones before it, as they come in a session.
      if (random() % 2 == 0) client.ask(standalone::decode_request(requests[4]));
      client.send(damaged(requests[random() % std::size(requests)], random));
      client.receive();
    } catch (const Error&) {  // the server has closed the connection
    }
  }
  // The first client has seen nothing of it.
  const standalone::Reply reply =
      honest.ask({.kind = standalone::RequestKind::kFetch, .tensors = {}, .slots = {}});
  EXPECT_EQ(reply.code, 0) << reply.message;
  EXPECT_TRUE(reply.joined);
}

}  // namespace
}  // namespace strata
