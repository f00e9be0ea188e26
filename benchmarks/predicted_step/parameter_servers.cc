// Steps with parameter servers: a layer's variables are messages from the servers that hold them,
// its gradients messages to them.
#include <algorithm>
#include <map>
#include <thread>

#include "core/mutex.h"
#include "core/thread.h"
#include "predicted_step/member.h"
#include "simulate/network_table.h"
#include "strata/core/error.h"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kPull = 1;  // a message that asks for all variables; they come with this channel
constexpr uint32_t kPush = 2;
constexpr uint32_t kAdded = 3;  // a message: all workers' gradients of the step are there

/// What a server holds of a layer.
struct LayerPart {
  size_t layer;
  size_t elements;
};

/// By server, in the order of layers.
std::vector<std::vector<LayerPart>> parts_of(const simulate::Scenario& scenario) {
  std::vector<size_t> layer_of;
  for (size_t layer = 0; layer < scenario.network.layers.size(); ++layer) {
    layer_of.insert(layer_of.end(), scenario.network.layers[layer].variables.size(), layer);
  }
  std::vector<std::map<size_t, size_t>> elements(static_cast<size_t>(scenario.servers));
  const std::vector<ps::VariableSpec> variables = scenario.network.variables();
  for (const ps::Piece& piece :
       simulate::place_on_servers(variables, scenario.servers, scenario.placement).pieces) {
    elements[static_cast<size_t>(piece.server)][layer_of[piece.variable]] +=
        static_cast<size_t>(piece.size());
  }
  std::vector<std::vector<LayerPart>> parts(elements.size());
  for (size_t server = 0; server < parts.size(); ++server) {
    for (const auto& [layer, count] : elements[server]) parts[server].push_back({layer, count});
  }
  return parts;
}

wire::Tag tag(uint32_t channel, size_t layer) {
  return {.channel = channel, .id = static_cast<uint32_t>(layer)};
}

/// Returns when it is on its way: what is sent next comes later, as the simulation has it.
void send_now(Member& member, wire::Connection& to, const wire::Tag& tag,
              const std::vector<float>& values) {
  wire::Transfer transfer = to.send(tag, std::as_bytes(std::span(values)));
  member.server().transport().wait(transfer, predicted_step_limit()).throw_if_error();
}

class ParameterServerWorker final : public StepRunner {
 public:
  ParameterServerWorker(const PredictedCase& predicted, Member& member)
      : scenario_(predicted.scenario()), member_(member), parts_(parts_of(scenario_)) {
    for (int server = 0; server < scenario_.servers; ++server) {
      servers_.push_back(
          member.server().connect({"ps", server}, "variables", predicted_step_limit()));
      values_.emplace_back();
      gradients_.emplace_back();
      for (const LayerPart& part : parts_[static_cast<size_t>(server)]) {
        values_.back().emplace_back(part.elements);
        gradients_.back().emplace_back(part.elements, 1.0F);
      }
    }
  }

  double step() override {
    member_.communicator().barrier();
    {
      const MutexLock lock(mutex_);
      here_ = 0;
      without_gradients_ = scenario_.network.layers.size();
    }
    const auto begin = Clock::now();
    std::vector<std::vector<wire::Transfer>> pulls = ask_for_all();
    Thread pulling("pulls", [&] { wait_for_layers(pulls); });
    std::vector<Thread> pushing;
    for (size_t s = 0; s < servers_.size(); ++s) {
      pushing.emplace_back("pushes", [this, s] { push_to(s); });
    }
    compute(begin);
    pulling.join();
    for (Thread& each : pushing) each.join();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  std::vector<std::vector<wire::Transfer>> ask_for_all() {
    std::vector<std::vector<wire::Transfer>> pulls(scenario_.network.layers.size());
    for (size_t s = 0; s < servers_.size(); ++s) {
      for (size_t i = 0; i < parts_[s].size(); ++i) {
        const size_t layer = parts_[s][i].layer;
        pulls[layer].push_back(servers_[s]->receive(
            tag(kPull, layer), std::as_writable_bytes(std::span(values_[s][i]))));
      }
      servers_[s]->send_message(kPull, "");
    }
    return pulls;
  }

  void wait_for_layers(std::vector<std::vector<wire::Transfer>>& pulls) {
    for (size_t layer = 0; layer < pulls.size(); ++layer) {
      member_.server().transport().wait_all(pulls[layer], predicted_step_limit()).throw_if_error();
      const MutexLock lock(mutex_);
      here_ = layer + 1;
      changed_.notify_all();
    }
  }

  /// Waits as layers would compute.
  void compute(Clock::time_point begin) {
    const std::vector<simulate::Layer>& layers = scenario_.network.layers;
    auto time = begin;
    const auto computes = [&](double seconds) {
      time += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
      std::this_thread::sleep_until(time);
    };
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (wait_until([&] { return here_ > layer; })) time = std::max(time, Clock::now());
      computes(layers[layer].forward_seconds);
    }
    for (size_t layer = layers.size(); layer-- > 0;) {
      computes(layers[layer].backward_seconds);
      const MutexLock lock(mutex_);
      without_gradients_ = layer;
      changed_.notify_all();
    }
  }

  /// Gradients as backward makes them, until all workers' have been added.
  void push_to(size_t server) {
    for (size_t i = parts_[server].size(); i-- > 0;) {
      const size_t layer = parts_[server][i].layer;
      wait_until([&] { return without_gradients_ <= layer; });
      send_now(member_, *servers_[server], tag(kPush, layer), gradients_[server][i]);
    }
    servers_[server]->receive_message(kAdded, predicted_step_limit());
  }

  /// @return whether it was not yet so.
  template <typename Condition>
  bool wait_until(const Condition& condition) {
    MutexLock lock(mutex_);
    bool waited = false;
    const auto end = Clock::now() + std::chrono::minutes(2);
    for (; !condition(); waited = true) {
      STRATA_CHECK(changed_.wait_until(lock, end) == std::cv_status::no_timeout, kDeadlineExceeded,
                   "[predicted_step] a layer's variables or gradients came not in two minutes");
    }
    return waited;
  }

  simulate::Scenario scenario_;
  Member& member_;
  std::vector<std::vector<LayerPart>> parts_;  // by server
  std::vector<std::shared_ptr<wire::Connection>> servers_;
  std::vector<std::vector<std::vector<float>>> values_, gradients_;  // by server and part
  Mutex mutex_;
  ConditionVariable changed_;
  size_t here_ STRATA_GUARDED_BY(mutex_) = 0;               // layers whose variables are
  size_t without_gradients_ STRATA_GUARDED_BY(mutex_) = 0;  // layers that backward comes to later
};

/// One server, with two threads a worker: one sends what is asked for, one adds what comes.
class ParameterServer {
 public:
  ParameterServer(const PredictedCase& predicted, Member& member)
      : member_(member),
        steps_(predicted.steps + PredictedCase::kWarmUp),
        parts_(parts_of(predicted.scenario())[static_cast<size_t>(member.index())]) {
    for (const LayerPart& part : parts_) {
      values_.emplace_back(part.elements);
      sums_.emplace_back(part.elements);
    }
    for (size_t w = 0; w < predicted.workers.size(); ++w) {
      workers_.push_back(member.server().connect({"worker", static_cast<int>(w)}, "variables",
                                                 predicted_step_limit()));
    }
  }

  void serve() {
    std::vector<Thread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back("pulled", [this, &worker] { answer_pulls(*worker); });
      threads.emplace_back("pushed", [this, &worker] { add_pushes(*worker); });
    }
    for (Thread& thread : threads) thread.join();
  }

 private:
  void answer_pulls(wire::Connection& worker) {
    for (int step = 0; step < steps_; ++step) {
      worker.receive_message(kPull, predicted_step_limit());
      for (size_t i = 0; i < parts_.size(); ++i) {
        send_now(member_, worker, tag(kPull, parts_[i].layer), values_[i]);
      }
    }
  }

  void add_pushes(wire::Connection& worker) {
    std::vector<std::vector<float>> gradients;
    for (const LayerPart& part : parts_) gradients.emplace_back(part.elements);
    for (int step = 0; step < steps_; ++step) {
      std::vector<wire::Transfer> receives;
      for (size_t i = parts_.size(); i-- > 0;) {
        receives.push_back(worker.receive(tag(kPush, parts_[i].layer),
                                          std::as_writable_bytes(std::span(gradients[i]))));
      }
      for (size_t r = 0; r < receives.size(); ++r) {
        member_.server().transport().wait(receives[r], predicted_step_limit()).throw_if_error();
        add(parts_.size() - 1 - r, gradients[parts_.size() - 1 - r]);
      }
      end_step();
    }
  }

  /// Beside slow lines the processors must not matter: what is added is one value a page.
  void add(size_t part, const std::vector<float>& gradients) {
    constexpr size_t kPage = 1024;
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < gradients.size(); i += kPage) sums_[part][i] += gradients[i];
  }

  /// By each worker's thread; the last one tells all.
  void end_step() {
    const MutexLock lock(mutex_);
    if (++ended_ % workers_.size() != 0) return;
    for (const auto& worker : workers_) worker->send_message(kAdded, "");
  }

  Member& member_;
  const int steps_;
  const std::vector<LayerPart> parts_;
  std::vector<std::shared_ptr<wire::Connection>> workers_;
  std::vector<std::vector<float>> values_;  // by part
  Mutex mutex_;
  std::vector<std::vector<float>> sums_ STRATA_GUARDED_BY(mutex_);
  size_t ended_ STRATA_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<StepRunner> make_parameter_server_worker(const PredictedCase& predicted,
                                                         Member& member) {
  return std::make_unique<ParameterServerWorker>(predicted, member);
}

void serve_parameters(const PredictedCase& predicted, Member& member) {
  ParameterServer(predicted, member).serve();
}

}  // namespace strata::bench
