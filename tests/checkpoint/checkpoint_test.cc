#include "strata/checkpoint/checkpoint.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/replica_group.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/data/dataset.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::TempFolder;

MirroredStrategy mirrored(int replicas) {
  set_logical_devices("cpu", 4);
  return MirroredStrategy({.devices = cpus(replicas), .seed = 5});
}

double item(const at::Tensor& tensor) { return tensor.item<double>(); }

/// What was logged while it lives.
class Log {
 public:
  Log()
      : old_(set_log_sink(
            [this](const LogRecord& record) { text_ += std::string(record.message) + "\n"; })) {}
  ~Log() { set_log_sink(old_); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  LogSink old_;
};

TEST(CheckpointTest, BringsBackValuesOfEveryKind) {
  const TempFolder folder;
  const auto make = [](bool fill) {
    struct All {
      Variable weight;
      at::Tensor tensor;
      std::vector<double> history;
      int small = 0;
      int64_t step = 0;
      double rate = 0;
      bool flag = false;
      std::string name = {};
    };
    auto all = std::make_unique<All>(All{Variable(at::zeros({2, 3})), {}, {}});
    if (fill) {
      all->weight.assign(at::arange(6, at::kFloat).view({2, 3}));
      all->tensor = at::arange(5, at::kLong);
      all->history = {0.5, -1e300};
      all->small = -7;
      all->step = int64_t{1} << 60;
      all->rate = 0.1;
      all->flag = true;
      all->name = "a \"name\"\n\xc3\xa4";
    }
    return all;
  };
  const auto objects = [](auto& all) {
    return Checkpoint::Objects{
        {"weight", all.weight},
        {"tensor", all.tensor},
        {"history", all.history},
        {"small", all.small},
        {"step", all.step},
        {"rate", all.rate},
        {"flag", all.flag},
        {"name", all.name},
        {"group", Checkpoint::Objects{{"again", all.weight}, {"step", all.step}}}};
  };
  const auto saved = make(true);
  const std::string path = Checkpoint(objects(*saved)).save(folder.path() + "/sub/folder/ckpt");
  EXPECT_EQ(path, folder.path() + "/sub/folder/ckpt-1");

  const auto restored = make(false);
  Checkpoint checkpoint(objects(*restored));
  checkpoint.restore(path).assert_consumed();
  EXPECT_TRUE(restored->weight.value().equal(saved->weight.value()));
  EXPECT_TRUE(restored->tensor.equal(saved->tensor));
  EXPECT_EQ(restored->tensor.scalar_type(), at::kLong);
  EXPECT_EQ(restored->history, saved->history);
  EXPECT_EQ(restored->small, -7);
  EXPECT_EQ(restored->step, int64_t{1} << 60);
  EXPECT_EQ(restored->rate, 0.1);
  EXPECT_TRUE(restored->flag);
  EXPECT_EQ(restored->name, saved->name);
  EXPECT_EQ(checkpoint.save_counter(), 1);
  EXPECT_EQ(checkpoint.save(folder.path() + "/ckpt"), folder.path() + "/ckpt-2");
}

TEST(CheckpointTest, ReadLeavesTheSaveCounter) {
  const TempFolder folder;
  int64_t step = 3;
  Checkpoint first({{"step", step}});
  (void)first.save(folder.path() + "/a");
  const std::string path = first.save(folder.path() + "/a");
  Checkpoint second({{"step", step}});
  second.read(path).assert_consumed();
  EXPECT_EQ(second.save_counter(), 0);
  second.restore(path).assert_consumed();
  EXPECT_EQ(second.save_counter(), 2);
}

TEST(CheckpointTest, NamesThatCannotBe) {
  int64_t step = 0;
  const auto made = [&](const char* name) { return [&step, name] { Checkpoint({{name, step}}); }; };
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"named ''"}, made("")));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"named 'a/b'"}, made("a/b")));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"named '_a'"}, made("_a")));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"two objects named 'a'"}, [&] {
    Checkpoint({{"a", step}, {"a", step}});
  }));
}

// Rule 23: replicas hold 3 and 4.
struct OnRead {
  OnRead() {
    for (const auto aggregation : {VariableAggregation::kSum, VariableAggregation::kMean,
                                   VariableAggregation::kOnlyFirstReplica}) {
      variables.emplace_back(at::zeros({}, at::kDouble),
                             VariableOptions{.name = "v",
                                             .synchronization = VariableSynchronization::kOnRead,
                                             .aggregation = aggregation});
    }
  }
  std::vector<Variable> variables;
};

std::vector<std::vector<double>> per_replica(const OnRead& on_read) {
  std::vector<std::vector<double>> values;
  for (const Variable& variable : on_read.variables) {
    values.emplace_back();
    for (const at::Tensor& each : variable.state()->replicas()) values.back().push_back(item(each));
  }
  return values;
}

std::string save_on_read(const std::string& folder, bool per_replica_state) {
  MirroredStrategy strategy = mirrored(2);
  OnRead on_read = strategy.scope([] { return OnRead(); });
  strategy.run([&] {
    const int id = get_replica_context()->replica_id_in_sync_group();
    for (Variable& variable : on_read.variables)
      variable.assign(at::full({}, 3.0 + id, at::kDouble));
  });
  Checkpoint checkpoint({{"v", on_read.variables}}, {.per_replica = per_replica_state});
  return checkpoint.save(folder + "/ckpt");
}

TEST(CheckpointTest, SyncOnReadVariablesStoreTheAggregate) {
  const TempFolder folder;
  const std::string path = save_on_read(folder.path(), /*per_replica_state=*/false);
  {  // as plain variables
    std::vector<Variable> plain(3, Variable(at::zeros({}, at::kDouble)));
    plain = {Variable(at::zeros({}, at::kDouble)), Variable(at::zeros({}, at::kDouble)),
             Variable(at::zeros({}, at::kDouble))};
    Checkpoint checkpoint({{"v", plain}});
    checkpoint.restore(path).assert_consumed();
    EXPECT_EQ(item(plain[0].value()), 7);
    EXPECT_EQ(item(plain[1].value()), 3.5);
    EXPECT_EQ(item(plain[2].value()), 3);
  }
  for (const int replicas : {2, 4}) {
    MirroredStrategy strategy = mirrored(replicas);
    OnRead on_read = strategy.scope([] { return OnRead(); });
    Checkpoint checkpoint({{"v", on_read.variables}});
    checkpoint.restore(path).assert_consumed();
    const auto n = static_cast<size_t>(replicas);
    EXPECT_EQ(per_replica(on_read), (std::vector<std::vector<double>>{
                                        std::vector<double>(n, 7.0 / replicas),
                                        std::vector<double>(n, 3.5), std::vector<double>(n, 3)}));
  }
}

TEST(CheckpointTest, AsManyReplicasGetTheirOwnValuesBack) {
  const TempFolder folder;
  const std::string path = save_on_read(folder.path(), /*per_replica_state=*/true);
  MirroredStrategy strategy = mirrored(2);
  OnRead on_read = strategy.scope([] { return OnRead(); });
  Checkpoint checkpoint({{"v", on_read.variables}});
  checkpoint.restore(path).assert_consumed();
  EXPECT_EQ(per_replica(on_read), (std::vector<std::vector<double>>{{3, 4}, {3, 4}, {3, 4}}));

  MirroredStrategy four = mirrored(4);
  OnRead other = four.scope([] { return OnRead(); });
  Checkpoint(Checkpoint::Objects{{"v", other.variables}}).restore(path).assert_consumed();
  EXPECT_EQ(per_replica(other)[0], (std::vector<double>{1.75, 1.75, 1.75, 1.75}));
}

TEST(CheckpointTest, LocalVariablesWithoutAggregation) {
  const TempFolder folder;
  const auto make = [] {
    return Variable(
        at::zeros({}),
        {.name = "v", .trainable = false, .synchronization = VariableSynchronization::kOnRead});
  };
  std::string path;
  {
    MirroredStrategy strategy = mirrored(2);
    Variable local = strategy.scope(make);
    strategy.run([&] {
      local.assign(at::full({}, 3.0 + get_replica_context()->replica_id_in_sync_group()));
    });
    path = Checkpoint({{"v", local}}).save(folder.path() + "/ckpt");
  }
  for (const int replicas : {2, 3}) {
    MirroredStrategy strategy = mirrored(replicas);
    Variable local = strategy.scope(make);
    Checkpoint checkpoint({{"v", local}});
    checkpoint.restore(path).assert_consumed();
    EXPECT_EQ(item(local.on_replica(0)), 3);
    EXPECT_EQ(item(local.on_replica(1)), replicas == 2 ? 4 : 3) << replicas;
  }
}

TEST(CheckpointTest, LocalVariablesOfNoElements) {
  const TempFolder folder;
  MirroredStrategy strategy = mirrored(2);
  const Variable local = strategy.scope([] {
    return Variable(
        at::zeros({0, 3}),
        {.name = "v", .trainable = false, .synchronization = VariableSynchronization::kOnRead});
  });
  Checkpoint checkpoint({{"v", local}});
  const std::string path = checkpoint.save(folder.path() + "/ckpt");
  checkpoint.restore(path).assert_consumed();
  EXPECT_EQ(local.on_replica(1).sizes(), (at::IntArrayRef{0, 3}));
}

TEST(CheckpointTest, MirroredVariablesStoreReplicaZero) {
  const TempFolder folder;
  std::string path;
  {
    MirroredStrategy strategy = mirrored(2);
    Variable variable = strategy.scope(
        [] { return Variable(at::zeros({2}), {.aggregation = VariableAggregation::kMean}); });
    variable.assign(at::tensor({1.0F, 2.0F}));
    path = Checkpoint({{"v", variable}}).save(folder.path() + "/ckpt");
  }
  Variable plain(at::zeros({2}));
  Checkpoint checkpoint({{"v", plain}});
  checkpoint.restore(path).assert_consumed();
  EXPECT_TRUE(plain.value().equal(at::tensor({1.0F, 2.0F})));
}

/// A weight under an optimizer, trained for `steps`.
struct Trained {
  explicit Trained(const schedules::Schedule& rate = 0.1)
      : weight(at::arange(4, at::kFloat), {.name = "w"}),
        bias(at::zeros({}), {.name = "b"}),
        adam({weight, bias}, {.learning_rate = rate}) {}
  void step() {
    adam.minimize((weight.value() * weight.value()).sum() + (bias.value() - 1).pow(2));
  }
  std::string fingerprint() const {
    std::vector<at::Tensor> all = {weight.value().detach(), bias.value().detach()};
    for (const auto& [name, slot] : adam.slots()) all.push_back(slot);
    return tensor::fingerprint(all);
  }
  Variable weight, bias;
  optimizers::Adam adam;
};

TEST(CheckpointTest, OptimizersGoOnWithTheSameBits) {
  const TempFolder folder;
  Trained straight;
  for (int i = 0; i < 6; ++i) straight.step();

  std::string path;
  {
    Trained first;
    for (int i = 0; i < 3; ++i) first.step();
    path = Checkpoint({{"weights", std::vector<Variable>{first.weight, first.bias}},
                       {"optimizer", first.adam}})
               .save(folder.path() + "/ckpt");
  }
  Trained second;
  Checkpoint checkpoint(
      {{"weights", std::vector<Variable>{second.weight, second.bias}}, {"optimizer", second.adam}});
  checkpoint.restore(path).assert_consumed();
  EXPECT_EQ(second.adam.iterations(), 3);
  for (int i = 0; i < 3; ++i) second.step();
  EXPECT_EQ(second.fingerprint(), straight.fingerprint());
}

TEST(CheckpointTest, LearningRatesAreSavedUnlessAScheduleMakesThem) {
  const TempFolder folder;
  Trained constant;
  constant.adam.set_learning_rate(0.25);
  const std::string path = Checkpoint({{"o", constant.adam}}).save(folder.path() + "/constant");
  Trained other;
  Checkpoint(Checkpoint::Objects{{"o", other.adam}}).restore(path).assert_consumed();
  EXPECT_EQ(other.adam.learning_rate(), 0.25);

  const schedules::Schedule decay = schedules::InverseTimeDecay{1, 1, 1};
  Trained scheduled(decay);
  scheduled.step();
  const std::string scheduled_path =
      Checkpoint({{"o", scheduled.adam}}).save(folder.path() + "/scheduled");
  Trained again(decay);
  Checkpoint(Checkpoint::Objects{{"o", again.adam}}).restore(scheduled_path).assert_consumed();
  EXPECT_EQ(again.adam.learning_rate(), 0.5);
}

TEST(CheckpointTest, SlotsOfAnOptimizerThatIsBuiltLater) {
  const TempFolder folder;
  Trained saved;
  saved.step();
  const std::string path = Checkpoint({{"o", saved.adam}}).save(folder.path() + "/ckpt");
  Trained fresh;
  optimizers::Adam late(optimizers::AdamOptions{.learning_rate = 0.1});
  Checkpoint checkpoint({{"o", late}});
  RestoreStatus status = checkpoint.restore(path);
  EXPECT_EQ(status.unused().size(), 4U);
  late.build({Variable(at::zeros({4}), {.name = "w"}), Variable(at::zeros({}), {.name = "b"})});
  status.assert_consumed();
  EXPECT_EQ(late.iterations(), 1);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(late.slots()[i].second.equal(saved.adam.slots()[i].second));
}

TEST(CheckpointTest, ObjectsThatAreAddedLaterGetTheirValues) {
  const TempFolder folder;
  int64_t a = 1;
  int64_t b = 2;
  const std::string path = Checkpoint({{"a", a}, {"b", b}}).save(folder.path() + "/ckpt");
  a = b = 0;
  Checkpoint checkpoint({{"a", a}});
  RestoreStatus status = checkpoint.restore(path);
  EXPECT_EQ(status.unused(), std::vector<std::string>{"b"});
  checkpoint.add("b", b);
  EXPECT_EQ(b, 2);
  a = 9;
  status.assert_consumed();
  EXPECT_EQ(a, 9);  // only once
}

TEST(CheckpointTest, StatusSaysWhatDidNotMatch) {
  const TempFolder folder;
  int64_t a = 1;
  int64_t b = 2;
  int64_t c = 3;
  const std::string path = Checkpoint({{"a", a}, {"b", b}}).save(folder.path() + "/ckpt");
  Checkpoint more({{"a", a}, {"c", c}});
  RestoreStatus status = more.restore(path);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"assert_existing_objects_matched", "has no 'c'"},
                     [&] { status.assert_existing_objects_matched(); }));
  Checkpoint fewer({{"a", a}});
  RestoreStatus partial = fewer.restore(path);
  partial.assert_existing_objects_matched();
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"assert_consumed", "holds 'b'"},
                     [&] { partial.assert_consumed(); }));
}

TEST(CheckpointTest, WarnsOfValuesWithoutObjects) {
  const TempFolder folder;
  int64_t a = 1;
  int64_t b = 2;
  const std::string path = Checkpoint({{"a", a}, {"b", b}}).save(folder.path() + "/ckpt");
  const Log log;
  { (void)Checkpoint(Checkpoint::Objects{{"a", a}}).restore(path).expect_partial(); }
  EXPECT_EQ(log.text(), "");
  { (void)Checkpoint(Checkpoint::Objects{{"a", a}}).restore(path); }
  EXPECT_NE(log.text().find("holds 'b', for which there was no object"), std::string::npos)
      << log.text();
}

TEST(CheckpointTest, ShapesAndDtypesThatDoNotFitChangeNothing) {
  const TempFolder folder;
  Variable a(at::ones({2}));
  Variable b(at::ones({3}));
  const std::string path = Checkpoint({{"a", a}, {"b", b}}).save(folder.path() + "/ckpt");
  Variable other_a(at::zeros({2}));
  Variable other_b(at::zeros({3, 1}));
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument, {"'b' holds Float [3], the object is Float [3, 1]"}, [&] {
        (void)Checkpoint(Checkpoint::Objects{{"a", other_a}, {"b", other_b}}).restore(path);
      }));
  EXPECT_EQ(item(other_a.value().sum()), 0);
  Variable named(at::zeros({3, 1}), {.name = "dense_1/kernel"});
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"'b' (dense_1/kernel) holds Float [3], the object is Float [3, 1]"}, [&] {
               (void)Checkpoint(Checkpoint::Objects{{"a", other_a}, {"b", named}}).restore(path);
             }));
  Variable doubles(at::zeros({2}, at::kDouble));
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument, {"'a' holds Float [2], the object is Double [2]"}, [&] {
        (void)Checkpoint(Checkpoint::Objects{{"a", doubles}}).restore(path);
      }));
  int64_t number = 0;
  std::string text = "text";
  const std::string values = Checkpoint({{"v", text}}).save(folder.path() + "/values");
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument, {"'v'", "got a string; expected an integer"}, [&] {
        (void)Checkpoint(Checkpoint::Objects{{"v", number}}).restore(values);
      }));
}

TEST(CheckpointTest, IteratorsGoOnBehindTheElementGivenLast) {
  const TempFolder folder;
  const auto dataset = data::Dataset::range(100).shuffle(20, {.seed = 3}).batch(7).prefetch(2);
  std::string path;
  std::vector<at::Tensor> rest;
  {
    data::Iterator iterator = dataset.iterator(2);
    for (int i = 0; i < 5; ++i) (void)iterator.next();
    path = Checkpoint({{"input", iterator}}).save(folder.path() + "/ckpt");
    while (auto batch = iterator.next()) rest.push_back(batch->x());
  }
  data::Iterator iterator = dataset.iterator(0);
  Checkpoint checkpoint({{"input", iterator}});
  checkpoint.restore(path).assert_consumed();
  size_t i = 0;
  while (auto batch = iterator.next()) EXPECT_TRUE(batch->x().equal(rest.at(i++)));
  EXPECT_EQ(i, rest.size());

  data::Iterator other = data::Dataset::range(100).batch(7).iterator(0);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"'input/position'"}, [&] {
    (void)Checkpoint(Checkpoint::Objects{{"input", other}}).restore(path);
  }));
}

TEST(CheckpointTest, RandomStateGoesOn) {
  const TempFolder folder;
  const auto draw = [](MirroredStrategy& strategy) {
    const auto drawn = strategy.run([] { return at::rand({3}); });
    return tensor::fingerprint({drawn.get(0), drawn.get(1), at::rand({3})});
  };
  std::string path, next;
  {
    MirroredStrategy strategy = mirrored(2);
    Variable variable = strategy.scope([] { return Variable(at::zeros({})); });
    (void)draw(strategy);
    path = Checkpoint({{"v", variable}}).save(folder.path() + "/ckpt");
    next = draw(strategy);
  }
  set_logical_devices("cpu", 4);
  MirroredStrategy strategy({.devices = cpus(2), .seed = 77});  // the seed that was saved counts
  Variable variable = strategy.scope([] { return Variable(at::zeros({})); });
  Checkpoint checkpoint({{"v", variable}});
  checkpoint.restore(path).assert_consumed();
  EXPECT_EQ(draw(strategy), next);
  EXPECT_NE(draw(strategy), next);

  Checkpoint without({{"v", variable}}, {.random_state = false});
  const uint64_t step = strategy.group().step();
  without.restore(path).expect_partial();
  EXPECT_EQ(strategy.group().step(), step);
}

TEST(CheckpointTest, LargeTensorsAreCutByRowsAndShardsAreBounded) {
  const TempFolder folder;
  const auto fill = [](int64_t rows) { return at::rand({rows, 16}); };
  Variable large(fill(100)), small(fill(3)), empty(at::zeros({0, 4})), scalar(at::ones({}));
  const auto objects = [](auto& a, auto& b, auto& c, auto& d) {
    return Checkpoint::Objects{{"large", a}, {"small", b}, {"empty", c}, {"scalar", d}};
  };
  Checkpoint saving(objects(large, small, empty, scalar),
                    {.random_state = false, .shard_bytes = 1024});
  const std::string path = saving.save(folder.path() + "/ckpt");
  int shards = 0;
  for (const std::string& name : local_file_system().list(path)) {
    if (name.ends_with(".safetensors")) ++shards;
    EXPECT_LT(local_file_system().info(path + "/" + name)->size, 8192U);
  }
  EXPECT_EQ(shards, 7);  // 100 rows of 64 bytes, 16 a shard
  Variable a(at::zeros({100, 16})), b(at::zeros({3, 16})), c(at::zeros({0, 4})), d(at::zeros({}));
  Checkpoint(objects(a, b, c, d), {.random_state = false}).restore(path).assert_consumed();
  EXPECT_TRUE(a.value().equal(large.value()));
  EXPECT_TRUE(b.value().equal(small.value()));
  EXPECT_TRUE(d.value().equal(scalar.value()));
}

// Through one thread and two, staged and in place, one shard and many.
TEST(CheckpointTest, BytesAreTheSameOnEveryWay) {
  const at::Tensor large = at::rand({3000, 1000});
  std::vector<at::Tensor> saved = {
      large,
      large.t(),
      large.gt(0.5),
      large.narrow(0, 1, 7).to(at::kBFloat16),
      at::zeros({0, 3}),
      at::ones({}, at::kLong),
      at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)};
  for (const bool asynchronous : {false, true}) {
    for (const int64_t shard_bytes : {int64_t{1} << 30, int64_t{1} << 20}) {
      const TempFolder folder;
      Checkpoint::Objects from, to;
      std::vector<at::Tensor> restored(saved.size());
      for (size_t i = 0; i < saved.size(); ++i) {
        from.emplace_back(str_cat("t", i), saved[i]);
        to.emplace_back(str_cat("t", i), restored[i]);
      }
      Checkpoint checkpoint(from, {.asynchronous = asynchronous, .shard_bytes = shard_bytes});
      const std::string path = checkpoint.save(folder.path() + "/ckpt");
      checkpoint.wait();
      Checkpoint(to).restore(path).assert_consumed();
      for (size_t i = 0; i < saved.size(); ++i) {
        EXPECT_EQ(tensor::fingerprint({restored[i]}), tensor::fingerprint({saved[i]})) << i;
      }
    }
  }
}

TEST(CheckpointTest, TensorsThatCannotBeSavedAreNamed) {
  const TempFolder folder;
  at::Tensor undefined;
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"'t' is an undefined tensor"}, [&] {
    (void)Checkpoint(Checkpoint::Objects{{"t", undefined}}).save(folder.path() + "/ckpt");
  }));
  at::Tensor complex = at::zeros({2}, at::kComplexDouble);
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"'t'", "ComplexDouble"}, [&] {
    (void)Checkpoint(Checkpoint::Objects{{"t", complex}}).save(folder.path() + "/ckpt");
  }));
  at::Tensor sparse = at::eye(3).to_sparse();
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"'t' is sparse"}, [&] {
    (void)Checkpoint(Checkpoint::Objects{{"t", sparse}}).save(folder.path() + "/ckpt");
  }));
  EXPECT_TRUE(local_file_system().list(folder.path()).empty());
}

TEST(CheckpointTest, IsForCrossReplicaContext) {
  const TempFolder folder;
  MirroredStrategy strategy = mirrored(2);
  int64_t step = 0;
  Checkpoint checkpoint({{"step", step}});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"Checkpoint::save"}, [&] {
    strategy.run([&] { (void)checkpoint.save(folder.path() + "/ckpt"); });
  }));
  EXPECT_EQ(checkpoint.save_counter(), 0);
}

}  // namespace
}  // namespace strata
