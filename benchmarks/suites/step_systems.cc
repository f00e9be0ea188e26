#include "suites/step_systems.h"

#include <string>
#include <utility>

#include "strata/core/str_cat.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;
using Environment = std::vector<std::pair<std::string, std::string>>;
using Build = BenchOptions::Build;

std::string find_mimalloc() {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib"}) {
    const fs::path file = fs::path(folder) / "libmimalloc.so.2";
    if (fs::exists(file)) return file;
  }
  return {};
}

class Catalogue {
 public:
  Catalogue(const BenchOptions& options, const StepCase& step_case, std::string data,
            std::vector<int> cpus, const tools::PortReservation& ports)
      : options_(options),
        ours_(step_case.model),
        case_(loop_of(ours_)),
        batch_(step_case.batch),
        data_(std::move(data)),
        both_(std::move(cpus)),
        ports_(ports),
        python_(options, {"--case", case_, "--data", data_}) {
    one_ = {both_.back()};
  }

  std::vector<SystemSpec> all() const {
    std::vector<SystemSpec> systems = systems_of_case();
    if (!options_.against.empty()) {
      systems.push_back(strata("other-1", 1, Build::kOther));
      systems.push_back(strata("other-2", 2, Build::kOther));
      if (ours_ == case_ && case_ != "run") {
        systems.push_back(workers("other-mw-2", kOtherPorts, Build::kOther));
      }
    }
    return systems;
  }

 private:
  static constexpr size_t kOtherPorts = 4;  ///< The last pair of kStepPorts.

  std::vector<SystemSpec> systems_of_case() const {
    if (ours_ != case_) {  // Model::fit
      return {
          strata("strata-1", 1),
          strata("strata-2", 2),
          portable(),
          {"strata-2-loop", images(2), {{"", {strata_process(Build::kThis, case_, 2, both_)}}}, {}},
          ddp(),
          tensorflow("tf-mirrored-2", 2, {{"call", "1"}, {"fit", "1"}}),
          keras()};
    }
    std::vector<SystemSpec> systems = {
        strata("strata-1", 1), strata("strata-2", 2), function(1), function(2), independent(),
        libtorch(), libtorch_tuned(), tensorflow("tf-1", 1, {{"loop", "1"}}), jax(), ddp(),
        // As TensorFlow's guides write it, a step a call; and with many steps in one call of a
        // graph.
        tensorflow("tf-mirrored-2", 2, {{"call", "1"}, {"fit", "1"}}),
        tensorflow("tf-mirrored-2-graph", 2, {{"loop", "1"}, {"fit", "32"}}), portable(),
        workers("strata-mw-2", 0), tf_workers(), stored("strata-central-2", "central"),
        stored("strata-2-shared", "shared"), stored("strata-2-copies", "copies")};
    if (case_ == "run") systems.resize(2);
    return systems;
  }

  double images(int replicas) const { return case_ == "run" ? 1 : replicas * batch_; }

  /// What the others run is the loop of the same model.
  static std::string loop_of(const std::string& name) {
    const size_t end = name.rfind("-fit");
    return end == std::string::npos ? name : name.substr(0, end) + "-loop";
  }

  ProcessSpec strata_process(Build build, const std::string& name, int replicas,
                             std::vector<int> cpus) const {
    return {options_.worker(build, {"worker", "--case", name, "--data", data_, "--replicas",
                                    std::to_string(replicas)}),
            {},
            std::move(cpus)};
  }
  SystemSpec strata(const std::string& name, int replicas, Build build = Build::kThis) const {
    return {name,
            images(replicas),
            {{"", {strata_process(build, ours_, replicas, replicas == 1 ? one_ : both_)}}},
            {}};
  }
  /// The step as a strata::function.
  SystemSpec function(int replicas) const {
    SystemSpec system = strata(str_cat("strata-function-", replicas), replicas);
    std::vector<std::string>& argv = system.variants.front().processes.front().argv;
    argv.insert(argv.end(), {"--function", "yes"});
    return system;
  }
  SystemSpec portable() const {
    ProcessSpec process = strata_process(Build::kThis, ours_, 1, one_);
    process.argv.insert(process.argv.end(), {"--bits", "portable"});
    return {"strata-portable-1", images(1), {{"", {process}}}, {}};
  }
  SystemSpec stored(const std::string& name, const std::string& storage) const {
    ProcessSpec process = strata_process(Build::kThis, ours_, 2, both_);
    process.argv.insert(process.argv.end(), {"--storage", storage});
    return {name, images(2), {{"", {process}}}, {}};
  }
  SystemSpec independent() const {
    Variant variant;
    for (const int cpu : both_) {
      variant.processes.push_back(strata_process(Build::kThis, ours_, 1, {cpu}));
    }
    return {"independent-2", images(2), {variant}, {}};
  }

  /// One of two workers. @param pair  Which of the ports they have.
  std::pair<std::string, std::string> role(size_t pair, size_t index) const {
    std::vector<std::string> addresses;
    for (size_t i = 0; i < both_.size(); ++i) {
      addresses.push_back(str_cat("127.0.0.1:", ports_[2 * pair + i]));
    }
    return worker_role(addresses, index);
  }
  SystemSpec workers(const std::string& name, size_t pair, Build build = Build::kThis) const {
    Variant variant;
    for (size_t i = 0; i < both_.size(); ++i) {
      ProcessSpec process = strata_process(build, ours_, 1, {both_[i]});
      process.argv.insert(process.argv.end(), {"--cluster", "yes"});
      process.environment = {role(pair, i)};
      variant.processes.push_back(std::move(process));
    }
    return {name, images(2), {variant}, {}};
  }
  SystemSpec tf_workers() const {
    SystemSpec system{"tf-mw-2", images(2), {}, python_.missing("tf", "tf_loop.py")};
    for (const char* mode : {"call", "loop", "fit"}) {
      Variant variant{mode, {}};
      for (size_t i = 0; i < both_.size(); ++i) {
        variant.processes.push_back(
            python_.process("tf", "tf_loop.py", {"--workers", "2", "--mode", mode}, {both_[i]}));
        variant.processes.back().environment.push_back(role(1 + system.variants.size(), i));
      }
      system.variants.push_back(std::move(variant));
    }
    return system;
  }

  fs::path libtorch_program() const {
    return options_.command.parent_path() / "strata-peer-libtorch";
  }
  ProcessSpec libtorch_process(const std::vector<std::string>& more,
                               const Environment& environment) const {
    ProcessSpec process{{libtorch_program(), "--case", case_, "--data", data_}, environment, one_};
    process.argv.insert(process.argv.end(), more.begin(), more.end());
    return process;
  }
  std::string libtorch_missing() const {
    return fs::exists(libtorch_program())
               ? ""
               : str_cat("no ", libtorch_program().string(), "; build target strata_peer_libtorch");
  }
  SystemSpec libtorch() const {
    return {"libtorch-1", images(1), {{"", {libtorch_process({}, {})}}}, libtorch_missing()};
  }
  SystemSpec libtorch_tuned() const {
    const std::string mimalloc = find_mimalloc();
    SystemSpec system{"libtorch-1-tuned", images(1), {}, libtorch_missing()};
    if (mimalloc.empty()) system.missing = "no libmimalloc.so.2; run scripts/install_peers.sh";
    // Without the second, mimalloc gives the CNN's large blocks back in each step: a fifth slower.
    const Environment environment = {{"LD_PRELOAD", mimalloc}, {"MIMALLOC_ALLOW_DECOMMIT", "0"}};
    system.variants.push_back({"contiguous", {libtorch_process({"--tuned"}, environment)}});
    if (case_ == "cnn-loop") {
      system.variants.push_back(
          {"channels-last", {libtorch_process({"--tuned", "--channels-last"}, environment)}});
    }
    return system;
  }

  SystemSpec jax() const {
    SystemSpec system{"jax-1", images(1), {}, python_.missing("jax", "jax_loop.py")};
    system.variants.push_back(
        {"step", {python_.process("jax", "jax_loop.py", {"--mode", "step"}, one_)}});
    // XLA's CPU convolutions lose their fast path inside a loop: 20 times slower, not worth a wait.
    if (case_ != "cnn-loop") {
      system.variants.push_back(
          {"scan", {python_.process("jax", "jax_loop.py", {"--mode", "scan"}, one_)}});
    }
    return system;
  }
  SystemSpec tensorflow(const std::string& name, int replicas,
                        const std::vector<std::pair<std::string, std::string>>& modes) const {
    SystemSpec system{name, images(replicas), {}, python_.missing("tf", "tf_loop.py")};
    for (const auto& [mode, execution] : modes) {
      const ProcessSpec process = python_.process(
          "tf", "tf_loop.py",
          {"--replicas", std::to_string(replicas), "--mode", mode, "--execution", execution},
          replicas == 1 ? one_ : both_);
      system.variants.push_back({mode, {process}});
    }
    return system;
  }
  SystemSpec keras() const {
    SystemSpec system{"keras-2", images(2), {}, python_.missing("tf", "keras_loop.py")};
    // Several steps an execution end in an error of TensorFlow 2.21's under MirroredStrategy ("You
    // must feed a value for placeholder tensor"); should a later one run them, they count.
    for (const char* execution : {"50", "1"}) {
      system.variants.push_back(
          {execution,
           {python_.process("tf", "keras_loop.py", {"--replicas", "2", "--execution", execution},
                            both_)}});
    }
    return system;
  }
  SystemSpec ddp() const {
    SystemSpec system{"ddp-2", images(2), {}, python_.missing("torch", "ddp_loop.py")};
    for (const char* channels_last : {"0", "1"}) {
      const bool last = channels_last[0] == '1';
      if (last && case_ != "cnn-loop") continue;
      Variant variant{last ? "channels-last" : "contiguous", {}};
      const std::string store = str_cat(data_, ".store-", variant.name);
      for (size_t rank = 0; rank < both_.size(); ++rank) {
        variant.processes.push_back(
            python_.process("torch", "ddp_loop.py",
                            {"--rank", std::to_string(rank), "--world", "2", "--store", store,
                             "--channels-last", channels_last},
                            {both_[rank]}));
      }
      system.variants.push_back(std::move(variant));
    }
    return system;
  }

  const BenchOptions& options_;
  const std::string ours_;  ///< "mlp-fit"
  const std::string case_;  ///< "mlp-loop"
  const int batch_;
  const std::string data_;
  const std::vector<int> both_;
  const tools::PortReservation& ports_;
  std::vector<int> one_;
  const PythonPeers python_;
};

}  // namespace

std::vector<SystemSpec> step_systems(const BenchOptions& options, const StepCase& step_case,
                                     const fs::path& data, const std::vector<int>& cpus,
                                     const tools::PortReservation& ports) {
  return Catalogue(options, step_case, data.string(), cpus, ports).all();
}

}  // namespace strata::bench
