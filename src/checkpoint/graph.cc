#include "checkpoint/graph.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/runtime/replica_context.h"

namespace strata::checkpoint {
namespace {

constexpr int kMaxDepth = 64;

/// Where the replicas' random streams stand: they are keyed by seed, replica and step.
class RandomStreams final : public Trackable {
 public:
  explicit RandomStreams(std::shared_ptr<ReplicaGroup> group) : group_(std::move(group)) {}
  ObjectState state() override {
    return {.values = {{.name = "seed",
                        .read = [this] { return static_cast<int64_t>(group_->seed()); },
                        .write = [this](const CheckpointValue& value) { set_seed(value); }},
                       {.name = "step",
                        .read = [this] { return static_cast<int64_t>(group_->step()); },
                        .write =
                            [this](const CheckpointValue& value) {
                              group_->set_step(
                                  static_cast<uint64_t>(detail::checkpoint_value<int64_t>(value)));
                            }}}};
  }

 private:
  void set_seed(const CheckpointValue& value) {
    const auto seed = static_cast<uint64_t>(detail::checkpoint_value<int64_t>(value));
    if (seed != group_->seed()) {
      STRATA_LOG(kInfo) << "[checkpoint] restore: the random streams of " << group_->name()
                        << " go on with the seed " << seed << " that was saved, not with "
                        << group_->seed();
    }
    group_->set_seed(seed);
  }

  std::shared_ptr<ReplicaGroup> group_;
};

/// libtorch's own CPU generator, from which code outside replica functions draws.
class TorchRandom final : public Trackable {
 public:
  ObjectState state() override {
    TensorState state{.dtype = at::kByte, .any_size = true};
    state.read = [] {
      at::Generator generator = at::detail::getDefaultCPUGenerator();
      const std::lock_guard lock(generator.mutex());
      return generator.get_state();
    };
    state.write = [](const at::Tensor& value) {
      at::Generator generator = at::detail::getDefaultCPUGenerator();
      const std::lock_guard lock(generator.mutex());
      generator.set_state(value.clone());  // it wants 16-byte alignment
    };
    return {.tensors = {std::move(state)}};
  }
};

class Walk {
 public:
  explicit Walk(Graph& graph) : graph_(graph) {}

  void visit(const std::string& name, const std::shared_ptr<Trackable>& object, int depth = 0) {
    STRATA_CHECK(depth < kMaxDepth, kInvalidArgument, "[checkpoint] '", name.substr(0, 60),
                 "...': got objects nested more than ", kMaxDepth, " deep; does one hold itself?");
    object->settle();
    if (objects_.insert(object.get()).second) graph_.objects.push_back(object);
    ObjectState state = object->state();
    graph_.continues_run = graph_.continues_run || state.continues_run;
    for (TensorState& tensor : state.tensors) add(name, std::move(tensor));
    for (ValueState& value : state.values) {
      graph_.values.push_back({unique(join(name, value.name)), std::move(value)});
    }
    for (const auto& [child, below] : state.children) visit(join(name, child), below, depth + 1);
  }

 private:
  void note(const std::shared_ptr<ReplicaGroup>& group) {
    if (group && group->communicator() && !graph_.workers) graph_.workers = group;
  }

  static std::string join(const std::string& prefix, const std::string& name) {
    return name.empty() ? prefix : str_cat(prefix, '/', name);
  }

  /// Variables may have equal names: the second gets "#2".
  std::string unique(const std::string& name) {
    const int count = ++names_[name];
    return count == 1 ? name : unique(str_cat(name, '#', count));
  }

  void add(const std::string& prefix, TensorState state) {
    note(state.group);
    if (state.group &&
        std::find(graph_.groups.begin(), graph_.groups.end(), state.group) == graph_.groups.end()) {
      graph_.groups.push_back(state.group);
    }
    GraphTensor tensor{.name = unique(join(prefix, state.name)), .state = std::move(state)};
    if (tensor.state.identity != nullptr) {
      const auto [first, is_new] = seen_.try_emplace(tensor.state.identity, tensor.name);
      if (!is_new) tensor.same_as = first->second;
    }
    graph_.tensors.push_back(std::move(tensor));
  }

  Graph& graph_;
  std::set<const Trackable*> objects_;
  std::unordered_map<std::string, int> names_;
  std::unordered_map<const void*, std::string> seen_;
};

void check_names(const Objects& objects) {
  std::set<std::string> seen;
  for (const auto& [name, object] : objects) {
    STRATA_CHECK(!name.empty() && name.front() != kOwnPrefix && name.find('/') == std::string::npos,
                 kInvalidArgument, "[checkpoint] got an object named '", name,
                 "'; expected a name without '/' that does not begin with '_'");
    STRATA_CHECK(seen.insert(name).second, kInvalidArgument, "[checkpoint] got two objects named '",
                 name, "'; give each a name of its own");
  }
}

}  // namespace

Graph walk(const Objects& objects, bool random_state, int64_t& save_counter,
           const std::shared_ptr<ReplicaGroup>& otherwise) {
  check_names(objects);
  Graph graph;
  Walk walk(graph);
  for (const auto& [name, object] : objects) walk.visit(name, object.object());
  if (graph.groups.empty()) graph.groups.push_back(otherwise);
  if (!graph.workers) graph.workers = otherwise->communicator() ? otherwise : graph.groups[0];
  walk.visit("_save_counter", Tracked(save_counter).object());
  if (!random_state) return graph;
  for (size_t i = 0; i < graph.groups.size(); ++i) {
    walk.visit(i == 0 ? "_random" : str_cat("_random", i + 1),
               std::make_shared<RandomStreams>(graph.groups[i]));
  }
  walk.visit("_torch_random", std::make_shared<TorchRandom>());
  return graph;
}

}  // namespace strata::checkpoint
